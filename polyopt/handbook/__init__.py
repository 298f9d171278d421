"""The handbook: pages for people, and the site that Sphinx makes of them and of the code.

By hand are the pages here, in ``chapters`` and in ``notebooks``; ``generated`` writes those that the code
itself tells (programs, commands, API, results), ``extension`` teaches Sphinx our formulas, programs and
exercises, and ``site`` puts all of them into one folder, builds, keeps and renames.
"""

from polyopt.handbook.site import build_site, kept_site

__all__ = ["build_site", "kept_site"]
