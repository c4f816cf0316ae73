/** A finished run whose stages left changes of a workspace, the repository that they came from, and the guest's clone of it. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DataRef } from '../../../domain/plan/plan.ts';
import { toWire } from '../../../domain/plan/wire.ts';
import type { NewRunEvent, RunEventBody } from '../../../domain/run/event.ts';
import { compileText } from '../../../domain/language/load.ts';
import { importChanges } from '../../../git/import-changes.ts';
import { packRepository } from '../../../git/pack-repository.ts';
import { openStores } from '../../../store/open-stores.ts';
import { Terminal } from '../../cli/transcript.ts';
import { GIT_PATH } from './git-path.ts';
import { stageResult } from '../runs/stage-results.ts';

const SPEC = `kind: pipeline
name: fix
pipeline:
  boxes:
    - { name: fix, run: { program: "true" }, workspace: { git: ./app } }
    - { name: test, run: { program: "true" }, workspace: { from: fix } }
    - { name: other, run: { program: "true" }, workspace: { git: ./app } }
    - { name: plain, run: { program: "true" } }
    - { name: fixes, uses: one, for_each: [a, b] }
parts:
  one:
    workflow:
      steps:
        - { name: work, run: { program: "true" }, workspace: { git: ./app } }
        - { name: check, run: { program: "true" }, workspace: { from: work } }
`;
const HOST = { path: GIT_PATH, home: null };

/** Outputs of a stage, by their names. */
export type Left = Readonly<Record<string, DataRef>>;

/** The work that the agent of a failed stage left. */
export interface LeftPartial {
  readonly partial: Left;
}

export interface LeftRun {
  readonly terminal: Terminal;
  /** The author's repository. */
  readonly app: string;
  readonly guest: string;
  git(cwd: string, ...args: readonly string[]): string;
  /** Returns the outputs of a stage whose guest has changed the repository in this way. */
  outputsOf(change: (folder: string) => void): Promise<Left>;
  /** Returns the outputs of an agent whose attempt failed. */
  partialOf(left: Left): LeftPartial;
  /**
   * @param byStage  by exec keys, or by names of stages that ran once
   * @param runId  `r1` if it is left out
   */
  leaveRun(byStage: Readonly<Record<string, Left | LeftPartial>>, runId?: string): Promise<void>;
  commit(folder: string, message?: string): void;
  close(): Promise<void>;
}

function isPartial(left: Left | LeftPartial): left is LeftPartial {
  return 'partial' in left && !('sha256' in left.partial);
}

export async function openLeftRun(): Promise<LeftRun> {
  const terminal = new Terminal();
  const stores = await openStores({ stateDir: terminal.stateDir });
  const app = join(terminal.dir, 'app');
  const guest = join(terminal.dir, 'guest');
  let seq = 0;

  const git = (cwd: string, ...args: readonly string[]): string => {
    const identity = {
      GIT_AUTHOR_NAME: 'a',
      GIT_AUTHOR_EMAIL: 'a@b',
      GIT_COMMITTER_NAME: 'a',
      GIT_COMMITTER_EMAIL: 'a@b',
    };
    const env = { PATH: GIT_PATH, HOME: terminal.dir, GIT_CONFIG_NOSYSTEM: '1', ...identity };
    return execFileSync('git', args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' });
  };
  const event = (body: RunEventBody, id = `e/${(seq += 1)}`): NewRunEvent => ({
    id,
    atMs: 1_767_000_000_000 + (seq += 1),
    body,
  });
  const ended = (key: string, left: Left | LeftPartial): NewRunEvent => {
    const execKey = key.includes('/') ? key : `${key}/0/1`;
    const stage = execKey.slice(0, execKey.indexOf('/'));
    const result = isPartial(left)
      ? stageResult(execKey, {
          failure: { code: 'stage/timeout', message: 'it was late', stderrTail: '' },
          partial: left.partial,
        })
      : stageResult(execKey, { outputs: left });
    return event({ type: 'stage-finished', stage, execKey, result }, `stage/${execKey}/finished`);
  };

  mkdirSync(app);
  git(app, 'init', '-q', '-b', 'main');
  writeFileSync(join(app, 'a.txt'), 'one\ntwo\nthree\n');
  writeFileSync(join(app, 'run.sh'), '#!/bin/sh\n');
  git(app, 'add', '.');
  git(app, 'commit', '-qm', 'first');
  git(terminal.dir, 'clone', '-q', app, guest);
  return {
    terminal,
    app,
    guest,
    git,
    async outputsOf(change) {
      const request = { folder: app, ref: null, includeDirty: false, mayRead: () => true };
      const store = (bytes: AsyncIterable<Uint8Array>): Promise<DataRef> =>
        stores.artifacts.put(bytes, 'application/x-git-bundle');
      const { bundle, base } = await packRepository(HOST, request, store);
      change(guest);
      const commit = git(guest, 'rev-parse', 'HEAD').trim();
      const pack = execFileSync('git', ['pack-objects', '--revs', '--thin', '--stdout', '-q'], {
        cwd: guest,
        input: `${commit}\n^${base}\n`,
        env: { PATH: GIT_PATH },
      });
      async function* bytes(): AsyncIterable<Uint8Array> {
        yield pack;
      }
      const left = await importChanges(
        HOST,
        { base: stores.artifacts.open(bundle), earlier: null, pack: bytes(), commit },
        (patch, mediaType) => stores.artifacts.put(patch, mediaType),
      );
      return { 'base.bundle': bundle, 'changes.patch': left.patch, 'changes.bundle': left.bundle };
    },
    partialOf: (left) => ({
      partial: {
        'base.bundle': left['base.bundle']!,
        'partial.patch': left['changes.patch']!,
        'partial.bundle': left['changes.bundle']!,
      },
    }),
    async leaveRun(byStage, runId = 'r1') {
      const { plan, diagnostics } = compileText(SPEC, 'spec.yaml', { baseDir: terminal.dir });
      if (plan === null) throw new Error(JSON.stringify(diagnostics));
      const stages = ['fix', 'test', 'other', 'plain', 'fixes'].map((id) => ({ id, dependsOn: [] }));
      await stores.records.put(runId, 'plan', toWire(plan));
      await stores.events.append(runId, [
        event({ type: 'run-admitted', name: 'fix', kind: 'pipeline', hostId: 'h', stages, outputStage: 'plain' }),
        ...Object.entries(byStage).map(([key, left]) => ended(key, left)),
        event({
          type: 'run-finished',
          outcome: { state: 'succeeded', failedStage: null, failure: null, output: null },
        }),
      ]);
    },
    commit(folder, message = 'by the guest') {
      git(folder, 'add', '-A');
      git(folder, 'commit', '-qm', message);
    },
    async close() {
      await stores.close();
      terminal.dispose();
    },
  };
}
