import { expect, test } from 'vitest';
import { parseSessionRequest } from './session-request.ts';

const NAME = 'x'.repeat(256);

test('a valid request is returned as it is, up to its limits', () => {
  for (const request of [
    { skill: NAME },
    { skill: 's', version: NAME, codeHash: '0123abcd', subskill: NAME, params: 5 },
    {
      skill: 's',
      path: Array.from({ length: 32 }, () => 'a'),
      handshake: { host: 'codex', toolsAvailable: Array.from({ length: 1_000 }, () => 't'), isSubagent: true },
    },
    { skill: 's', handshake: {} },
  ])
    expect(parseSessionRequest(request)).toBe(request);
});

test('an invalid request is refused with the name of its mistake', () => {
  for (const [request, message] of [
    [null, 'names its skill'],
    [[], 'names its skill'],
    [{ skill: `${NAME}x` }, 'names its skill'],
    [{ skill: 's', version: '' }, '`version` is not'],
    [{ skill: 's', subskill: 5 }, '`subskill` is not'],
    [{ skill: 's', codeHash: '0123abc' }, '`codeHash` is not'],
    [{ skill: 's', codeHash: '../../..' }, '`codeHash` is not'],
    [{ skill: 's', path: Array.from({ length: 33 }, () => 'a') }, '`path` is not'],
    [{ skill: 's', handshake: 'all' }, '`handshake` is not'],
    [{ skill: 's', handshake: { host: 5 } }, '`handshake.host` is not'],
    [
      { skill: 's', handshake: { toolsAvailable: Array.from({ length: 1_001 }, () => 't') } },
      '`handshake.toolsAvailable` is not',
    ],
    [{ skill: 's', handshake: { isSubagent: 1 } }, '`handshake.isSubagent` is neither'],
  ] as const)
    expect(() => parseSessionRequest(request as never), message).toThrow(
      expect.objectContaining({ code: 'skill/params', message: expect.stringContaining(message) as string }),
    );
});
