/* program.h - the program under fire, postrider-faults: the library with its fail points compiled
 * in, a worker that writes down each call of its handler, and a producer.
 *
 *   postrider-faults work DIR            deliver by DIR/config.yaml until SIGTERM; SIGHUP reloads, SIGUSR1 starts all of it anew
 *   postrider-faults produce DIR SEED    send until SIGTERM
 *
 * What they write is one write() to a file opened with O_APPEND, so a kill -9 loses no line and
 * cuts none:
 *
 *   DIR/history   S id stream seq attempt failures digest pid   a handler begins
 *                 E id attempt ok|failed pid                    ... and is about to return
 *   DIR/producer  T id stream digest type pid                   about to send, in its own transaction
 *                 Q id stream digest type pid                   about to send by a pr_sender
 *                 C id | R id                                   it is committed | rolled back
 *   DIR/log       the engine's own log
 *
 * Environment: FAULTS_AFTER=n: the worker sends itself the signal FAULTS_SIGNAL (a number) in its
 * n-th call.  FAULTS_VFS=1: see vfs.c. */
#ifndef TEST_FAULTS_PROGRAM_H
#define TEST_FAULTS_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include <postrider.h>

#define LINE_BYTES 512 /* of each line of a history */

/* Open DIR/NAME for appending; ends the program when it cannot. */
int record_open(const char *dir, const char *name);
void record(int fd, const char *format, ...) PR_PRINTF(2, 3);

bool file_exists(const char *dir, const char *name);

int work(const char *dir);
int produce(const char *dir, uint64_t seed);

/* Make SQLite's files fail while DIR/io-error or DIR/disk-full is there. */
void vfs_install(const char *dir);

#endif
