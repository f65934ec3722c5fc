"""User study of clips after ITU-T P.910: one local page, and one CSV row per rating.

`trials` has the order of clips and the file of ratings, `server` the page. `docs/how-to/user-study.md` describes a
study.
"""
