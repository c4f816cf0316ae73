/**
 * Finds uses of a payload in places that are code, or that choose what a run fetches. The payload is hostile, also with
 * a valid signature. `voidbox deploy` refuses such a spec.
 */
import { codeArguments } from './code-arguments.ts';
import type { SpecCode } from '../../errors/spec-codes.ts';
import { matchPlaceholders } from '../grammar/placeholder-matches.ts';
import { paramName } from '../grammar/placeholders.ts';
import { hasTriggerExpression } from '../grammar/trigger-texts.ts';
import { typeOf } from '../read/params.ts';
import { folderOf, type PartFiles, partPath } from '../read/part-files.ts';
import type { Spec, StageSpec } from '../read/spec.ts';
import type { Located, Position } from '../text/tree.ts';
import { isGitAddress } from '../../plan/workspace.ts';
import { quote } from '../../units/quote.ts';

export interface PayloadUse {
  readonly code: SpecCode;
  /** The spec whose text has the place. */
  readonly file: string;
  readonly at: Position;
  readonly message: string;
  readonly remedy: string;
}

/** The specs that a spec can use. */
export interface UsableSpecs {
  readonly files: PartFiles;
  readonly baseDir: string | null;
}

/**
 * Follows the payload through the parameters of the spec and of its parts.
 *
 * A number, a boolean and a choice of the author cannot contain code, but can complete an address.
 */
export function findPayloadCode(spec: Spec, usable: UsableSpecs): readonly PayloadUse[] {
  const found: PayloadUse[] = [];
  for (const [each, filled] of findFilled(spec, usable))
    for (const stage of each.stages) {
      if (found.length >= MOST_USES) return found;
      found.push(...findInStage(stage, each, filled));
    }
  return found;
}

/** More would not help an author. */
const MOST_USES = 100;

/** Returns the parameters that a payload fills, of the spec and of each part that it reaches. */
function findFilled(spec: Spec, { files, baseDir }: UsableSpecs): ReadonlyMap<Spec, ReadonlySet<string>> {
  const filled = new Map<Spec, Set<string>>();
  const uses = new Map<Spec, readonly PartUse[]>();
  const queue: { readonly spec: Spec; readonly names: readonly string[]; readonly baseDir: string | null }[] = [];
  const visit = (reached: Spec, names: readonly string[], folder: string | null): void => {
    const known = filled.get(reached) ?? new Set();
    filled.set(reached, known);
    const fresh = names.filter((name) => !known.has(name));
    for (const name of fresh) known.add(name);
    if (fresh.length > 0) queue.push({ spec: reached, names: fresh, baseDir: folder });
  };
  const first = spec.on.flatMap(({ params }) =>
    params.filter(({ value }) => hasTriggerExpression(value.value)).map(({ name }) => name),
  );
  visit(spec, first, baseDir);
  // A loop over a list that grows visits the new entries too.
  for (const entry of queue) {
    const own = uses.get(entry.spec) ?? entry.spec.stages.flatMap((stage) => findUse(stage, entry, files) ?? []);
    uses.set(entry.spec, own);
    const fresh = new Set(entry.names);
    for (const { part, folder, given } of own)
      visit(
        part,
        given.filter(({ reads }) => reads.some((name) => fresh.has(name))).map(({ name }) => name),
        folder,
      );
  }
  return filled;
}

/** The use of a part by a stage. */
interface PartUse {
  readonly part: Spec;
  readonly folder: string | null;
  /** The parameters of the part, with the parameters of the user that their values contain. */
  readonly given: readonly { readonly name: string; readonly reads: readonly string[] }[];
}

function findInStage(stage: StageSpec, spec: Spec, filled: ReadonlySet<string>): readonly PayloadUse[] {
  const free = new Set(spec.params.filter((param) => ['text', 'list'].includes(typeOf(param))).map(({ name }) => name));
  const mayBeCode = new Set([...filled].filter((name) => free.has(name)));
  const what = `stage ${quote(stage.name.value)}`;
  const use = (text: Located<string>, names: ReadonlySet<string>, where: string, remedy: string): PayloadUse[] => {
    const name = listParams(text.value).find((each) => names.has(each));
    if (name === undefined) return [];
    return [
      {
        code: 'spec/payload-code',
        file: spec.file,
        at: text.at,
        message: `a trigger fills the parameter ${quote(name)} from a payload, and ${what} has it ${where}`,
        remedy,
      },
    ];
  };
  const { run, workspace } = stage;
  const code =
    run === null
      ? new Map<number, string>()
      : codeArguments(
          run.program.value,
          run.args.map(({ value }) => value),
        );
  return [
    ...(run === null
      ? []
      : use(run.program, mayBeCode, 'as `program`', 'write the program, or declare the parameter with `choices`')),
    ...[...code].flatMap(([index, interpreter]) =>
      use(
        run!.args[index]!,
        mayBeCode,
        `in a program of ${interpreter}, which reads it as code`,
        'pass it as a variable in `env`, and read that variable in the program; or declare the parameter as a number, a boolean or a choice',
      ),
    ),
    ...(workspace === null || workspace.git === null
      ? []
      : use(
          workspace.git,
          filled,
          'in `git` of its workspace',
          'write the address, and let the payload choose only `ref`',
        )),
    ...(workspace === null || workspace.ref === null || workspace.git === null || isGitAddress(workspace.git.value)
      ? []
      : use(
          workspace.ref,
          filled,
          'as `ref` of a repository that `voidbox deploy` sends with one commit',
          'write the URL of the repository in `git`, and allow it: voidbox deploy FILE --allow-git HOST/PATH',
        )),
  ];
}

/** Returns null if the stage uses no part, or one that cannot be read. */
function findUse(
  { uses, partParams }: StageSpec,
  { spec, baseDir }: { readonly spec: Spec; readonly baseDir: string | null },
  files: PartFiles,
): PartUse | null {
  if (uses === null || partParams === null) return null;
  const given = Object.entries(partParams.value as Readonly<Record<string, unknown>>).map(([name, value]) => ({
    name,
    reads: listTexts(value).flatMap(listParams),
  }));
  const beside = spec.parts.find(({ name }) => name.value === uses.value);
  if (beside !== undefined) return beside.spec === null ? null : { part: beside.spec, folder: baseDir, given };
  const named = partPath(baseDir ?? '/', uses.value);
  const file = named === null ? undefined : files.get(named.path);
  if (named === null || file === undefined || 'problem' in file || file.spec === null) return null;
  const part = named.part === null ? file.spec : file.spec.parts.find(({ name }) => name.value === named.part)?.spec;
  return part === null || part === undefined ? null : { part, folder: folderOf(named.path), given };
}

function listTexts(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(listTexts) : [];
}

/** Returns the parameters whose values a text contains. */
function listParams(text: string): readonly string[] {
  return [...matchPlaceholders(text)].flatMap(({ inner }) => (inner === undefined ? [] : (paramName(inner) ?? [])));
}
