/* certificate.h - a self-signed certificate for 127.0.0.1 and localhost. */
#ifndef TEST_TRANSPORT_CERTIFICATE_H
#define TEST_TRANSPORT_CERTIFICATE_H

/* Writes FOLDER/NAME.pem and FOLDER/NAME.key, readable for all; valid from a day before its end, which is in
 * so many seconds (less than 0: it is over). */
void certificate_make(const char *folder, const char *name, long end_seconds);
/* The same for one that another of the folder vouches for: a client's own, for an hour. */
void certificate_make_client(const char *folder, const char *name, const char *issuer_name);

#endif
