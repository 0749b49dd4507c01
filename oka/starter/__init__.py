"""The files of a new project, as `oka new` writes them under another name."""
