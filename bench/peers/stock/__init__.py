"""A Django project as its documentation builds one: the peer of `bench.api`.

Django's middleware, django-cors-headers, whitenoise, django-prometheus, the REST framework and
simplejwt; its one view answers what `GET /api/v1/auth/me` answers.
"""
