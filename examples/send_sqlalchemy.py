#!/usr/bin/env python3
"""Send a message with the client in the transaction of a SQLAlchemy session: the order and its message are stored together, or
neither is.

    apt install python3-sqlalchemy; pip install clients/python
    postrider init --store sqlite:shop.db
    python3 send_sqlalchemy.py sqlite:///shop.db        # or postgresql:///shop
"""
import sys

import postrider
from sqlalchemy import Column, Integer, create_engine
from sqlalchemy.orm import Session, declarative_base

Base = declarative_base()


class Order(Base):
    __tablename__ = "orders"
    id = Column(Integer, primary_key=True)
    total = Column(Integer)


engine = create_engine(sys.argv[1])
Base.metadata.create_all(engine)

with Session(engine) as session, session.begin():  # COMMIT at its end, ROLLBACK after an exception
    order = Order(total=4200)
    session.add(order)
    session.flush()  # it has an id now
    sent = postrider.send(session, "order.placed", {"order": order.id, "total": order.total}, stream="order-%d" % order.id,
                          headers={"tenant": "7"})
    print("stored", sent)
