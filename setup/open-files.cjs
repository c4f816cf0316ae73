/**
 * How many files this process may have open. Plain JavaScript: `bin/voidbox.js` asks before anything else is loaded, since
 * Node's own loader ends with a stack trace where there are too few.
 */
const { readFileSync } = require('node:fs');

/** Node loads the modules of a command a hundred at a time. */
const COMMAND_OPEN_FILES = 192;
/** A worker has several for each stage that runs, the Temporal server some for each of its clients. */
const STACK_OPEN_FILES = 1024;

/** The hard limit, to which Node raises its own; null where the system does not say. */
function openFilesLimit() {
  try {
    const limit = /^Max open files\s+\S+\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    return limit === undefined ? null : limit === 'unlimited' ? Number.POSITIVE_INFINITY : Number(limit);
  } catch {
    return null;
  }
}

/**
 * The message and the remedy; null when there are enough.
 * @param {string} what who needs them, as the beginning of a sentence
 * @param {number} needed
 * @param {number | null} [limit]
 * @returns {{ message: string, remedy: string } | null}
 */
function tooFewOpenFiles(what, needed, limit = openFilesLimit()) {
  if (limit === null || limit >= needed) return null;
  return {
    message: `${what} needs ${needed} open files, and ${limit} are allowed here.`,
    remedy: `Allow more where it is started: ulimit -n ${STACK_OPEN_FILES} (as root, or by LimitNOFILE= of a systemd unit, where that is refused)`,
  };
}

module.exports = { COMMAND_OPEN_FILES, STACK_OPEN_FILES, openFilesLimit, tooFewOpenFiles };
