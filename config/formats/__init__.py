"""The formats of times in the admin (Django's setting FORMAT_MODULE_PATH): one package for each language."""
