"""One page: a list of customers beside the form of one of them, and that one's orders."""

from datetime import date

from django.db.models import Count, Sum
from django.shortcuts import get_object_or_404, redirect, render

from .forms import CustomerForm, OrderForm, SearchForm
from .models import Customer

# Headings of the list, and the columns by which they sort it.
COLUMNS = [("Name", "name"), ("E-mail", "email"), ("Birthday", "birthday"), ("City", "city"), ("Credit limit", "credit_limit"),
           ("Orders", "ordered")]
FILTERS = {"name": "name__icontains", "email": "email", "born_from": "birthday__gte", "born_to": "birthday__lte"}


def asked(search):
    """The customers that the search form asks for."""
    if not search.is_valid():
        return Customer.objects.none()
    return Customer.objects.filter(**{FILTERS[name]: value for name, value in search.cleaned_data.items() if value})


def heading(query, title, column, sort):
    """A heading's link sorts by its column, or turns the order round."""
    query = query.copy()
    query["sort"] = f"-{column}" if sort == column else column
    arrow = {column: "↑", f"-{column}": "↓"}.get(sort, "")
    return {"title": title, "arrow": arrow, "link": query.urlencode()}


def page(request, customer=None, form=None, order_form=None):
    """The list, and beside it the forms that are given."""
    sort = request.GET.get("sort", "name")
    if sort.lstrip("-") not in dict(COLUMNS).values():
        sort = "name"
    search = SearchForm(request.GET)
    customers = asked(search)
    listed = customers.annotate(order_count=Count("orders"), ordered=Sum("orders__amount")).order_by(sort, "id")
    context = {
        "search": search, "sort": sort, "customers": listed, "customer": customer, "form": form, "order_form": order_form,
        "headings": [heading(request.GET, *column, sort) for column in COLUMNS], "query": request.GET.urlencode(),
        "orders": customer.orders.order_by("-placed", "-id") if customer else [],
        "credit": customers.aggregate(Sum("credit_limit"))["credit_limit__sum"],
    }
    return render(request, "page.html", context)


def edit_customer(request, pk=None):
    """Shows the form of a customer, an empty one without `pk`, and takes it."""
    customer = get_object_or_404(Customer, pk=pk) if pk else None
    form = CustomerForm(request.POST or None, instance=customer)
    if request.method == "POST" and form.is_valid():
        return redirect("customer", form.save().pk)
    kept = get_object_or_404(Customer, pk=pk) if pk else None  # without what a wrong form has put in
    return page(request, kept, form, empty_order())


def add_order(request, pk):
    """Takes a new order of a customer."""
    customer = get_object_or_404(Customer, pk=pk)
    form = OrderForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        form.instance.customer = customer
        form.save()
        return redirect("customer", pk)
    return page(request, customer, CustomerForm(instance=customer), form)


def empty_order():
    return OrderForm(initial={"placed": date.today()})
