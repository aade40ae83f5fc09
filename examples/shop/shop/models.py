"""Customers and their orders."""

from django.db import models


class Customer(models.Model):
    name = models.CharField(max_length=80)
    email = models.EmailField("e-mail")
    phone = models.CharField(max_length=30, blank=True)
    birthday = models.DateField(null=True, blank=True)
    credit_limit = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    city = models.CharField(max_length=40)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["email"], name="customer_email",
                                               violation_error_message="Another customer has this e-mail.")]
        indexes = [models.Index(fields=["name"], name="customer_name"), models.Index(fields=["birthday"], name="customer_birthday")]

    def __str__(self):
        return self.name


class Order(models.Model):
    customer = models.ForeignKey(Customer, models.CASCADE, related_name="orders")
    item = models.CharField(max_length=80)
    amount = models.DecimalField(max_digits=10, decimal_places=2)
    placed = models.DateField()

    def __str__(self):
        return self.item
