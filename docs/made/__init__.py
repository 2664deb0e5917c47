"""The reference pages, made from the code: a module a page."""
