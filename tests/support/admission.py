"""What tests use of `bursar.law.admission`."""

from bursar.law.admission import invariants, ticket
from bursar.law.admission.aging import effective_priority
from bursar.law.admission.gate import Gate
from bursar.law.admission.resources import AMOUNT_MAX, Limit
from bursar.law.admission.ticket import ShortageRecord, Ticket, TicketState
