-- What an instance can do for flows (core/offer.h), for the others.
ALTER TABLE postrider_instance ADD COLUMN offer TEXT NOT NULL DEFAULT '';
-- Nobody works the box, and this instance (its epoch) is to have it if it lives; 0: anybody.
ALTER TABLE postrider_box ADD COLUMN passed_to INTEGER NOT NULL DEFAULT 0;
