# placeholder, grows with the project
PYTHON ?= python3
VENV := .venv
