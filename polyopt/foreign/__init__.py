"""Certificates of points of certified programs, among them other packages' solutions.

``programs`` is the table of the programs, ``solutions`` reads what packages return (arrays, files, and fitted
objects of scikit-learn, LIBSVM and LIBLINEAR), and ``certify`` is the public function.
"""
