/**
 * Proof that replay catches mistakes: small changes to copies of the workflow code, each of which some history does not replay.
 * The changes are made in the bundle of the build, so that ten copies cost no bundler. Isolated, as `replay.isolated.test.ts`.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { BUNDLE_FILE } from '../../workers/bundle.ts';
import { HISTORIES, replay, silenceWorkers } from './histories.ts';

interface Mutant {
  /** Follows "a workflow that". */
  readonly what: string;
  /** Occurs once in the code. */
  readonly from: RegExp;
  readonly to: string;
  /** Histories that begin with this text contain the changed path: the others are not replayed. */
  readonly of: RegExp;
}

const MUTANTS: readonly Mutant[] = [
  {
    what: 'writes no event of a run before the next call',
    from: /if \(!this\.#outbox\.isEmpty\)\s+this\.#appendNow\(\);\s+return null;/,
    to: 'return null;',
    of: /^(?!session|items)/,
  },
  {
    what: 'writes the events of a run once more at each step',
    from: /if \(!this\.#outbox\.isEmpty\)\s+this\.#appendNow\(\);\s+return null;/,
    to: 'this.#appendNow(); return null;',
    of: /^two-steps/,
  },
  {
    what: 'sets a timer before each stage of a run',
    from: /(const stage = this\.#stages\.get\(stageId\);\s+)(const events = this\.#outbox\.take\(\);)/,
    to: "$1this.#sleep(1, 'mutant', { type: 'timer-fired', id: 'mutant' }); $2",
    of: /^two-steps/,
  },
  {
    what: 'executes the commands of a step of a run in the reverse order',
    from: /for \(const command of step\.commands\)( \{\s+switch \(command\.type\) \{\s+case 'run-stage':\s+this\.#runStage\(command\);)/,
    to: 'for (const command of [...step.commands].reverse())$1',
    of: /^(?!session)/,
  },
  {
    what: 'repeats the steps that the next VM of a lost one holds',
    from: /const held = new Set\(holds\?\.map\(/,
    to: 'const held = new Set([].map(',
    of: /^saved/,
  },
  {
    what: 'opens a window for every second item',
    from: /const STAGES_IN_WINDOW = 2_500;/,
    to: 'const STAGES_IN_WINDOW = 2;',
    of: /^items/,
  },
  {
    what: 'merges the results of items twice',
    from: /(return callThroughGate\(items\.gates\?\.calls, )(\(\) => endItems\.executeWithOptions\([^;]+\]\))\);/,
    to: 'const end = $2; await end(); $1end);',
    of: /^items/,
  },
  {
    what: 'sets a timer before each stage of an item',
    from: /(const \{ instance, underWay \} = open;)(\s+const \{ runId, part, upstream: outer \})/,
    to: "$1 this.#sleep(0, open, 1, 'mutant', { type: 'timer-fired', id: 'mutant' });$2",
    of: /^items/,
  },
  {
    what: 'tells observers of a session twice',
    from: /(await _calls_js__WEBPACK_IMPORTED_MODULE_\d+__\.activities\.observe\.executeWithOptions\([^;]+\]\));/,
    to: 'const tell = async () => $1; await tell(); await tell();',
    of: /./,
  },
  {
    what: 'writes the records of a session after each turn',
    from: /if \(isMuch && !this\.#isOver\(\)\)/,
    to: 'if (!this.#isOver())',
    of: /./,
  },
  {
    what: 'never writes the records of a session in the middle',
    from: /if \(isMuch && !this\.#isOver\(\)\)/,
    to: 'if (false)',
    of: /^told/,
  },
  {
    what: 'runs each turn of a session twice',
    from: /return (await _calls_js__WEBPACK_IMPORTED_MODULE_\d+__\.localActivities\.sessionTurn\.executeWithOptions\((?:[^;]+)\]\));/,
    to: 'const turn = async () => $1; await turn(); return await turn();',
    of: /./,
  },
];

let code: string;
beforeAll(() => {
  silenceWorkers();
  code = readFileSync(join(findPackageRoot(), BUNDLE_FILE), 'utf8');
});

/** The first history that does not replay; null: all do. */
async function firstFailure(changed: string, names: readonly string[]): Promise<string | null> {
  const results = replay(changed, names);
  try {
    for await (const { workflowId, error } of results) if (error !== undefined) return workflowId;
    return null;
  } finally {
    await results.return?.(undefined);
  }
}

test.each(MUTANTS)(
  'a workflow that $what does not replay a history',
  { timeout: 300_000 },
  async ({ from, to, of }) => {
    expect(
      code.split(from).length,
      `${String(from)} does not occur: build the bundle, or write the change again`,
    ).toBeGreaterThan(1);
    expect(code.replace(from, '').match(from), `${String(from)} occurs twice`).toBeNull();
    const names = HISTORIES.filter((name) => of.test(name));
    expect(await firstFailure(code.replace(from, to), names)).not.toBeNull();
  },
);
