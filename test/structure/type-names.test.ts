/** The name of an exported type ends with a noun: a reader meets it without the function that returns it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { pathsOf } from './imports.ts';

const ROOT = findPackageRoot();

/** Nouns with the end of a participle. */
const NOUNS = new Set([
  'binding',
  'encoding',
  'finding',
  'linking',
  'mapping',
  'need',
  'reading',
  'setting',
  'warning',
]);
/** Words that need a noun after them. */
const NO_NOUN = /(?:[^e]ed|ing)$|^(?:at|by|elsewhere|for|from|given|here|in|misled|only|to|with)$/;

/** Names without a noun that the code still has. The list may only get shorter. */
const LEFT = new Set([
  'activities/admission/continued-agents.ts: EarlierContinued',
  'activities/agent/command.ts: AgentAsked',
  'activities/agent/shared/sayings.ts: ToldSaying',
  'activities/contract-session.ts: SessionCarried',
  'activities/ports/model-servers.ts: IsPortClosed',
  'activities/ports/session-stores.ts: Wanted',
  'activities/ports/stage-sessions.ts: SessionAnswerGiven',
  'activities/ports/stage-sessions.ts: SessionEnded',
  'activities/ports/stage-sessions.ts: SessionStanding',
  'activities/workspace/changes.ts: Ignored',
  'agents/stream.ts: AgentSaying',
  'app/runs/beginning-runs.ts: Sorted',
  'app/runs/run-elsewhere.ts: RunElsewhere',
  'app/runs/unpack.ts: Unpacked',
  'app/start/prepare-rerun.ts: Compiled',
  'app/start/start-run.ts: StartFrom',
  'bench/compare/judge.ts: Compared',
  'bench/fake-model/model-api.ts: Asked',
  'client/vms/retained-vms.ts: RetainedVmHere',
  'domain/language/text/tree.ts: Located',
  'domain/plan/plan-description.ts: Compared',
  'domain/step-machine/definition.ts: WaitFor',
  'git/import-changes.ts: Opened',
  'git/merge-changes.ts: Merged',
  'git/pack-repository.ts: Packed',
  'sandbox/mounts/incoming.ts: Incoming',
  'sdk/results.ts: Merged',
  'setup/pieces/find-program.ts: ProgramWanted',
  'skill-kit/author/schema.ts: Checked',
  'skill-kit/author/store-types.ts: GuaranteedAt',
  'skill-kit/author/store-types.ts: Misled',
  'skill-kit/author/store-types.ts: StoreAt',
  'skill-kit/author/store-types.ts: TargetsIn',
  'skill-kit/lint/load-or-explain.ts: Loaded',
  'skill-kit/lint/load-or-explain.ts: Refused',
  'skill-kit/lint/rule.ts: TellAt',
  'skill-kit/worker-handoff.ts: Offered',
  'workers/lent-variables.ts: LentFrom',
  'workflows/run/run-status.ts: StageStanding',
]);

function endsWithNoun(name: string): boolean {
  const last = name
    .split(/(?<=[a-z0-9])(?=[A-Z])/)
    .at(-1)!
    .toLowerCase();
  return NOUNS.has(last) || !NO_NOUN.test(last);
}

const typesIn = (source: string): readonly string[] =>
  [...source.matchAll(/^export (?:interface|type) ([A-Z]\w*)/gm)].map(([, name]) => name!);

test('the name of each exported type ends with a noun, except for the names that are left', () => {
  const sources = pathsOf(ROOT).filter(
    (path) => path.endsWith('.ts') && !/\.test\.ts$|^(?:test|examples)\//.test(path),
  );
  expect(sources.length).toBeGreaterThan(400);
  const found = sources.flatMap((path) =>
    typesIn(readFileSync(join(ROOT, path), 'utf8'))
      .filter((name) => !endsWithNoun(name))
      .map((name) => `${path}: ${name}`),
  );
  expect(found.toSorted()).toEqual([...LEFT].toSorted());
});

test.each(['RunView', 'Plan', 'VmNeed', 'Finding', 'CheckExpressions', 'DataRef'])(
  'a name ends with a noun: %s',
  (name) => {
    expect(endsWithNoun(name)).toBe(true);
  },
);

test.each(['Packed', 'SessionCarried', 'Incoming', 'RunElsewhere', 'LentFrom', 'SessionAnswerGiven'])(
  'a name does not end with a noun: %s',
  (name) => {
    expect(endsWithNoun(name)).toBe(false);
  },
);

test('exported interfaces and types are read, and other declarations are not', () => {
  const source = 'export interface A {}\nexport type B = 1;\ninterface C {}\nexport class D {}\n';
  expect(typesIn(source)).toEqual(['A', 'B']);
});
