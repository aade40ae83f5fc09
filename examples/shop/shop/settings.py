"""Settings of the shop. The connection is that of PGHOST, PGPORT, PGUSER and PGDATABASE."""

import os
from pathlib import Path

from django.core.management.utils import get_random_secret_key

HERE = Path(__file__).resolve().parent

SECRET_KEY = get_random_secret_key()  # forms that are open end with the server
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "shop.urls"
INSTALLED_APPS = ["shop"]
MIDDLEWARE = ["django.middleware.security.SecurityMiddleware", "django.middleware.common.CommonMiddleware",
              "django.middleware.csrf.CsrfViewMiddleware", "django.middleware.clickjacking.XFrameOptionsMiddleware"]
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "DIRS": [HERE / "templates"]}]
DATABASES = {"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": os.environ.get("PGDATABASE", "shop"), "HOST": os.environ.get("PGHOST", ""),
    "PORT": os.environ.get("PGPORT", ""), "USER": os.environ.get("PGUSER", "")}}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = True
LOGGING = {"version": 1, "disable_existing_loggers": False, "handlers": {"console": {"class": "logging.StreamHandler"}},
           "loggers": {"django": {"handlers": ["console"], "level": "WARNING"}}}
