"""What Oka is installed as, and files of a user that would hide its packages."""
