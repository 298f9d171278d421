"""A lecture in a box: slides, exercises, their solutions, pictures and programs of a chapter as a folder.

In the order to read:

lectures  which lectures there are, and the files of one
slides    a chapter of the handbook, cut into slides, and the slides as one page
notebook  the exercises as notebooks
figures   the pictures
tex       the programs as LaTeX
folder    writing a folder whole, or not at all
"""

from polyopt.lecture.folder import check_folder, write_folder
from polyopt.lecture.lectures import LECTURES, Lecture, find_lecture, lecture_files

__all__ = ["LECTURES", "Lecture", "check_folder", "find_lecture", "lecture_files", "write_folder"]
