"""The shop's one page, and where its forms lead."""

from django.urls import path

from . import views

urlpatterns = [
    path("", views.page, name="page"),
    path("new", views.edit_customer, name="new"),
    path("customer/<int:pk>", views.edit_customer, name="customer"),
    path("customer/<int:pk>/order", views.add_order, name="order"),
]
