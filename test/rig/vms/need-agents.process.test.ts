/** Without a network and without a cache, tests of agents fail, and say which did not run. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { readEnvironment } from '../../../setup/environment.ts';
import { needAgents } from './need-agents.ts';
import { TemporaryFolder } from '../skills/skill-command.ts';

it('command lines that cannot be fetched are named, each with its reason and remedy', async () => {
  using folder = new TemporaryFolder();
  mkdirSync(folder.file('bin'));
  writeFileSync(folder.file('bin/npm'), '#!/bin/sh\necho "npm error connect ECONNREFUSED" >&2\nexit 1\n', {
    mode: 0o755,
  });
  const env = readEnvironment({
    HOME: folder.path,
    VOIDBOX_CACHE_DIR: folder.file('cache'),
    PATH: `${folder.file('bin')}:${process.env['PATH'] ?? ''}`,
  });
  const words = await needAgents('these tests', ['codex', 'claude'], env).then(
    () => 'all there',
    (error: unknown) => (error as Error).message,
  );
  for (const [name, npmPackage] of [
    ['codex', '@openai/codex'],
    ['claude', '@anthropic-ai/claude-code'],
  ] as const) {
    expect(words).toContain(`NOT RUN: these tests need ${name}: SetupError: npm cannot download ${npmPackage}`);
    expect(words).toContain(
      'npm error connect ECONNREFUSED\n  Check npm’s registry and proxy (npm config list), and retry.',
    );
  }
});
