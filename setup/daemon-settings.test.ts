import { expect, test } from 'vitest';
import { readDaemonSettings } from './daemon-settings.ts';

const read = (variables: Readonly<Record<string, string>>) =>
  readDaemonSettings((name) => variables[name] ?? null, 1_000);

test('the socket is where clients of Void-Box look for it', () => {
  expect(read({ XDG_RUNTIME_DIR: '/run/user/1000', TMPDIR: '/scratch' }).socket).toBe('/run/user/1000/voidbox.sock');
  expect(read({ TMPDIR: '/scratch' }).socket).toBe('/scratch/voidbox-1000.sock');
  expect(read({}).socket).toBe('/tmp/voidbox-1000.sock');
});

test('a file with the token precedes its text', () => {
  expect(read({}).token).toBeNull();
  expect(read({ VOIDBOX_DAEMON_TOKEN: 'text' }).token).toEqual({ kind: 'text', text: 'text' });
  expect(read({ VOIDBOX_DAEMON_TOKEN: 'text', VOIDBOX_DAEMON_TOKEN_FILE: '/t' }).token).toEqual({
    kind: 'file',
    path: '/t',
  });
});
