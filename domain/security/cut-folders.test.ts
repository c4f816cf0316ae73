import { expect, test } from 'vitest';
import { cutFolders } from './cut-folders.ts';

test.each([
  ['    at run (/opt/void box/dist/activities/run-stage.js:40:10)', '    at run (run-stage.js:40:10)'],
  ['    at async file:///opt/voidbox/dist/main.js:1:2', '    at async main.js:1:2'],
  [
    '    at process (node:internal/process/task_queues:95:5)',
    '    at process (node:internal/process/task_queues:95:5)',
  ],
  [
    "Error: Cannot find module '/opt/voidbox/dist/a.js' imported from /opt/voidbox/dist/b.mjs\n    at x (/a/b/c.cjs:1:1)",
    "Error: Cannot find module 'a.js' imported from b.mjs\n    at x (c.cjs:1:1)",
  ],
  // A path in a remedy stays.
  ['mount /srv/data is refused', 'mount /srv/data is refused'],
  [
    "ENOSPC: no space left on device, write '/var/state/runs'",
    "ENOSPC: no space left on device, write '/var/state/runs'",
  ],
])('%s', (text, cut) => {
  expect(cutFolders(text)).toBe(cut);
});
