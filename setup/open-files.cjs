/**
 * Checks how many files this process may open. It is plain JavaScript: `bin/voidbox.js` calls it before it loads
 * anything else, because Node's own loader ends with a stack trace if the limit is too low.
 */
const { readFileSync } = require('node:fs');

/** Node loads the modules of a command a hundred at a time. */
const COMMAND_OPEN_FILES = 192;
/** A worker has several for each running stage, and the Temporal server some for each of its clients. */
const STACK_OPEN_FILES = 1024;

/** Returns the hard limit, to which Node raises its own limit; null if the system does not report it. */
function openFilesLimit() {
  try {
    const limit = /^Max open files\s+\S+\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    return limit === undefined ? null : limit === 'unlimited' ? Number.POSITIVE_INFINITY : Number(limit);
  } catch {
    return null;
  }
}

/**
 * Returns the message and the remedy; null if the limit is high enough.
 * @param {string} what the process that needs them, as the beginning of a sentence
 * @param {number} needed
 * @param {number | null} [limit]
 * @returns {{ message: string, remedy: string } | null}
 */
function tooFewOpenFiles(what, needed, limit = openFilesLimit()) {
  if (limit === null || limit >= needed) return null;
  return {
    message: `${what} needs ${needed} open files, but this process may open only ${limit}.`,
    remedy: `Raise the limit in the shell that starts it: ulimit -n ${STACK_OPEN_FILES}. If the shell refuses that, raise it as root, or with LimitNOFILE= of a systemd unit.`,
  };
}

module.exports = { COMMAND_OPEN_FILES, STACK_OPEN_FILES, openFilesLimit, tooFewOpenFiles };
