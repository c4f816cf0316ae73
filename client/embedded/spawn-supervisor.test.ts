import { expect, test } from 'vitest';
import { isDatabaseVariable, isStackVariable } from './spawn-supervisor.ts';

test.each(['PATH', 'HOME', 'XDG_STATE_HOME', 'VOIDBOX_DURABILITY', 'NODE_EXTRA_CA_CERTS', 'DATABASE_URL_FILE'])(
  'the stack gets %s',
  (name) => {
    expect(isStackVariable(name)).toBe(true);
  },
);

test.each(['ANTHROPIC_API_KEY', 'VOIDBOX_TOKEN', 'VOIDBOX_DAEMON_TOKEN', 'MY_PATH', 'DATABASE_URL_OF_OTHERS'])(
  'the stack does not get %s',
  (name) => {
    expect(isStackVariable(name)).toBe(false);
  },
);

test('only the HTTP API of a stack gets the address of the database', () => {
  expect(['DATABASE_URL', 'DATABASE_URL_FILE', 'PATH'].filter(isDatabaseVariable)).toEqual([
    'DATABASE_URL',
    'DATABASE_URL_FILE',
  ]);
  expect(isStackVariable('DATABASE_URL')).toBe(true);
});
