"""What Oka is installed as, the user's folders, and files that would hide Oka's packages."""
