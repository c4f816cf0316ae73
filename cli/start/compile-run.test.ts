import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { COMMAND_NAMES } from '../command-table.ts';
import { compileAgain } from './compile-run.ts';
import { createContext } from '../context.ts';

test('the text of an earlier run may have conditions', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-compile-again-'));
  try {
    const { stdout, stderr, stdin } = process;
    const context = createContext(
      readEnvironment({ VOIDBOX_STATE_DIR: dir }),
      { stdout, stderr, stdin, cwd: () => dir },
      COMMAND_NAMES,
    );
    const text =
      'kind: workflow\nname: x\nworkflow: { steps: [{ name: a, when: "1 < 2", run: { program: "true" } }] }\n';
    const { plan } = await compileAgain(
      { path: null, text },
      dir,
      {
        params: {},
        settings: null,
        mode: null,
        mock: () => null,
        mockAgents: false,
        images: { given: {}, allow: [] },
        json: true,
      },
      context,
    );
    expect(plan.stages[0]!.when).toMatchObject({ source: '1 < 2' });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
