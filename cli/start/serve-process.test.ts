import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { selectServeVariables } from './serve-process.ts';

test('the process of `serve` gets paths that hold in any folder, and not the token of the daemon', () => {
  const typed = {
    PATH: '/bin',
    VOIDBOX_STATE_DIR: 'state',
    VOIDBOX_CACHE_DIR: 'cache',
    DATABASE_URL_FILE: 'database',
    VOIDBOX_SECRETS_KEY_FILE: 'keys',
    VOIDBOX_DAEMON_TOKEN: 'a-token-of-the-daemon',
  };
  const here = (name: string): string => join(process.cwd(), name);
  expect(selectServeVariables(readEnvironment(typed))).toEqual({
    PATH: '/bin',
    VOIDBOX_STATE_DIR: here('state'),
    VOIDBOX_CACHE_DIR: here('cache'),
    DATABASE_URL_FILE: here('database'),
    VOIDBOX_SECRETS_KEY_FILE: here('keys'),
  });
});
