"""The forms of the page."""

from django import forms

from .models import Customer, Order


class DateInput(forms.DateInput):
    input_type = "date"

    def __init__(self):
        super().__init__(format="%Y-%m-%d")


class SearchForm(forms.Form):
    name = forms.CharField(required=False, label="Name contains")
    email = forms.CharField(required=False, label="E-mail is")
    born_from = forms.DateField(required=False, label="Born from", widget=DateInput())
    born_to = forms.DateField(required=False, label="Born until", widget=DateInput())


class CustomerForm(forms.ModelForm):
    class Meta:
        model = Customer
        fields = ["name", "email", "phone", "birthday", "credit_limit", "city"]
        widgets = {"birthday": DateInput()}


class OrderForm(forms.ModelForm):
    class Meta:
        model = Order
        fields = ["item", "amount", "placed"]
        widgets = {"placed": DateInput()}
