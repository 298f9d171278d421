"""A lecture in a box: slides, exercises, their solutions, pictures and programs of a chapter as a folder.

In the order to read:

lectures  the lectures, the files of a lecture, and writing them into a folder
slides    a chapter of the handbook, cut into slides, and the slides as one page
handouts  the exercises as notebooks, and the programs as LaTeX
figures   the pictures
"""

from polyopt.lecture.lectures import (
    LECTURES,
    Lecture,
    check_lecture_folder,
    find_lecture,
    lecture_files,
    write_folder,
)

__all__ = ["LECTURES", "Lecture", "check_lecture_folder", "find_lecture", "lecture_files", "write_folder"]
