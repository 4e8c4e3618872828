-- What is wrong with the sources of a process, a line each, for people who ask the store; NULL: nothing.  It goes with the instance.
ALTER TABLE postrider_instance ADD COLUMN sources TEXT;
