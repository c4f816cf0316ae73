/**
 * The PATH that tests look up `git` in. `VOIDBOX_TEST_GIT` names a folder with another version of git: from 2.54 on, a configuration
 * can have hooks, which an older git does not run.
 */
const folder = process.env['VOIDBOX_TEST_GIT'] ?? '';

export const GIT_PATH = `${folder === '' ? '' : `${folder}:`}/usr/local/bin:/usr/bin:/bin`;
