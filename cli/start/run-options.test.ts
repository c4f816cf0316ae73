import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { compileText } from '../../domain/language/load.ts';
import { readEnvironment } from '../../setup/environment.ts';
import type { CliContext } from '../context.ts';
import { resolveRunOptions } from './run-options.ts';

const NOW_MS = Date.UTC(2026, 10, 24, 12);

test('a run gets only the variables that its plan names, and the expiry of its login', async () => {
  const home = mkdtempSync(join(tmpdir(), 'voidbox-run-options-'));
  onTestFinished(() => rmSync(home, { recursive: true }));
  mkdirSync(join(home, '.claude'));
  const login = { accessToken: 'access', refreshToken: 'refresh', expiresAt: NOW_MS + 3_600_000 };
  writeFileSync(join(home, '.claude', '.credentials.json'), JSON.stringify({ claudeAiOauth: login }));
  const text = `kind: workflow
name: w
workflow:
  steps:
    - { name: a, prompt: hi, llm: { provider: claude-personal }, timeout_secs: 600 }
    - { name: b, depends_on: [a], secrets: [TOKEN], run: { program: x } }
`;
  const { plan } = compileText(text, 's.yaml', { baseDir: null });
  const env = readEnvironment({ HOME: home, TOKEN: 'of b', OTHER: 'of nobody' });
  const context = { env, cwd: home, now: () => new Date(NOW_MS) } as CliContext;
  const handedOver = (await resolveRunOptions(plan!, {}, context)).hostVariables;
  expect(handedOver).toEqual({
    CLAUDE_CODE_OAUTH_TOKEN: 'access',
    TOKEN: 'of b',
    'login-end:CLAUDE_CODE_OAUTH_TOKEN': '2026-11-24T13:00:00.000Z',
  });
});
