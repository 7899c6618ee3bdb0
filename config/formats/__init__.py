"""How the admin writes times (Django's setting FORMAT_MODULE_PATH): one package for each language."""
