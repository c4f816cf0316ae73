import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import type { Machine } from '../machine.ts';
import { compileAgain, type CompileNotice } from './compile-run.ts';

test('the text of an earlier run may have conditions', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-compile-again-'));
  try {
    const notices: CompileNotice[] = [];
    const refuse = (): never => {
      throw new Error('compiling needs neither a person nor a store');
    };
    const machine: Machine = {
      env: readEnvironment({ VOIDBOX_STATE_DIR: dir }),
      cwd: dir,
      readStdin: refuse,
      confirm: refuse,
      stores: refuse,
      now: refuse,
      warn: refuse,
    };
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
        onNotice: (notice) => Promise.resolve(void notices.push(notice)),
      },
      machine,
    );
    expect(notices).toMatchObject([{ kind: 'diagnostics', diagnostics: [], isRefused: false }]);
    expect(plan.stages[0]!.when).toMatchObject({ source: '1 < 2' });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
