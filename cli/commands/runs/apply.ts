import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fromWire, type PlanWire } from '../../../domain/plan/wire.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import {
  applyToFolder,
  ApplyProblem,
  commitsIn,
  type Conflict,
  conflictsOf,
  findTarget,
  isApplied,
  type Patch,
  type Target,
  writePatch,
} from '../../../git/apply-changes.ts';
import { BlockedBranch, makeBranch, RefusedBranchName } from '../../../git/make-branch.ts';
import { type Opened, RefusedChanges, withChanges } from '../../../git/import-changes.ts';
import { type BuildProduct, findBuildProducts, isInProduct } from '../../../git/build-products.ts';
import type { ChangedFile } from '../../../git/changed-files.ts';
import { mergeChanges } from '../../../git/merge-changes.ts';
import { openScratch } from '../../../git/private-repository.ts';
import { GitError, type GitHost } from '../../../git/run-git.ts';
import { hasUnfinished, type Recovery, recoverUnfinished, UnreadableRecord } from '../../../git/unfinished-apply.ts';
import { RefusedPlace } from '../../../git/held-folder.ts';
import { WorkspaceProblem } from '../../../git/workspace-problem.ts';
import { withLock } from '../../../setup/lock.ts';
import { readOutputs } from '../../../store/run-outputs.ts';
import type { Stores } from '../../../store/open-stores.ts';
import { AppError, environmentError, usageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import type { CliContext } from '../../context.ts';
import { EXIT, type ExitCode } from '../../exit-code.ts';
import { renderBuildProducts } from '../../render/skills/build-products.ts';
import { countOf, renderChangedFiles } from '../../render/runs/changed-files.ts';
import type { Style } from '../../render/text/style.ts';
import { findRunHere } from '../../../app/runs/run-elsewhere.ts';
import { quoteRunId } from '../../../domain/run/run-id.ts';
import { nameRunIn, typedStage } from '../../../app/runs/run-id.ts';
import { quoteArgument } from '../../../domain/security/typed-argument.ts';
import { quote } from '../../../domain/units/quote.ts';
import {
  branchOf,
  changesOf,
  type LeftChanges,
  listStages,
  partialStages,
} from '../../../app/runs/workspace-of-run.ts';

interface Options {
  readonly stage?: string;
  readonly repository?: string;
  readonly partial?: boolean;
  /** Empty: the name is that of the run and the stage. */
  readonly branch?: string;
  readonly patch?: boolean;
  readonly check?: boolean;
  readonly '3way'?: boolean;
  readonly json?: boolean;
}

type Mode = 'apply' | 'branch' | 'patch' | 'check';

export const command = defineCommand<Options>({
  withEquals: ['--branch'],
  configure: (command) => {
    command
      .argument('<run>', 'a run id, a unique prefix of one, or `latest`')
      .option(
        '-s, --stage <stage>',
        "whose changes, of an item 'fixes[1].work'; needed if several stages left changes that no other stage uses",
      )
      .option('--partial', 'what the agent of a stage changed that failed or was cancelled')
      .option(
        '--branch [=name]',
        'make a branch of its commits, `voidbox/RUN/STAGE` without a name, and change no file',
      )
      .option('--patch', 'print the patch, and change nothing')
      .option('--check', 'say whether it applies, and change nothing')
      .option('--3way', 'merge files that changed on both sides, and leave conflict markers in those that conflict')
      .option(
        '-r, --repository <folder>',
        'the top folder of the repository that gets them; by default the one that the workspace came from, else the current folder',
      )
      .addHelpText(
        'after',
        '\nShows what has changed, then changes files of the working tree; nothing is staged or committed. All applies or nothing does: exits with 1 if a file conflicts. With --3way all files are written; exits with 1 if one of them has conflict markers.',
      );
  },
  async execute([text = ''], options, context) {
    const mode = modeOf(options);
    const runId = await findRunHere('apply', text, context);
    const stores = await context.stores();
    const wire = (await stores.records.get(runId, 'plan').catch(() => null)) as PlanWire | null;
    const plan = wire === null ? null : fromWire(wire);
    const outputs = await readOutputs(stores.reader, runId);
    const choice = { stage: options.stage ?? null, isPartial: options.partial === true };
    const left = changesOf(runId, plan, outputs, choice);
    const others = choice.isPartial ? [] : partialStages(outputs);
    if (others.length > 0 && options.json !== true)
      await context.stderr.write(
        `${context.advise(`changes of agents that did not succeed are left out (${listStages(others)}): voidbox apply --partial ${quoteRunId(runId)}`)}\n`,
      );
    const abort = new AbortController();
    const listening = context.onInterrupt(() => abort.abort());
    const scratch = join(context.env.stateDir, 'git');
    const host: GitHost = { path: context.env.path, home: null, scratch, signal: abort.signal };
    try {
      if (mode === 'patch') return await printPatch(left, stores, context);
      openScratch(scratch);
      return await take({ runId, mode, left, host, options, stores, context });
    } catch (error) {
      if (abort.signal.aborted) return EXIT.interrupted;
      throw asAppError(error, runId);
    } finally {
      listening.dispose();
    }
  },
});

function modeOf({ branch, patch, check, json, '3way': merges }: Options): Mode {
  const modes = (['branch', 'patch', 'check'] as const).filter(
    (mode) => ({ branch: branch !== undefined, patch, check })[mode] === true,
  );
  if (modes.length > 1)
    throw usageError(`--${modes[0]!} and --${modes[1]!} exclude each other`, 'Leave one of them out.');
  if (patch === true && json === true) throw usageError('--patch prints a patch, and --json excludes it');
  if (merges === true && (branch !== undefined || patch === true))
    throw usageError(`--3way writes files, and --${modes[0]!} excludes it`, 'Leave one of them out.');
  return modes[0] ?? 'apply';
}

async function printPatch({ patch }: LeftChanges, { artifacts }: Stores, { stdout }: CliContext): Promise<ExitCode> {
  for await (const chunk of artifacts.open(patch)) await stdout.write(chunk);
  return EXIT.success;
}

interface Taking {
  readonly runId: string;
  readonly mode: Exclude<Mode, 'patch'>;
  readonly left: LeftChanges;
  readonly host: GitHost;
  readonly options: Options;
  readonly stores: Stores;
  readonly context: CliContext;
}

interface Summed extends Taking {
  readonly products: readonly BuildProduct[];
}

async function take(taking: Taking): Promise<ExitCode> {
  const { left, host, stores, mode, context } = taking;
  const target = await targetOf(taking);
  const { artifacts } = stores;
  const bytes = { base: artifacts.open(left.base), bundle: artifacts.open(left.bundle) };
  return await withChanges(host, bytes, async (opened) => {
    const commits = await commitsIn(opened);
    const products = await findBuildProducts(host, opened.repository, opened.base.base, opened.files);
    const summed: Summed = { ...taking, products };
    if (taking.options.json !== true)
      await context.stderr.write(
        `stage ${sanitizeLine(left.stage)}${left.isPartial ? ' (partial: it did not succeed)' : ''}: ${countOf(opened.files.length, 'file')}, ${countOf(commits, 'commit')}, for ${sanitizeLine(target.top)}\n${renderFiles(opened.files, products, context.stderr.style)}`,
      );
    if (opened.files.length === 0 && (mode !== 'branch' || commits === 0))
      return await say(summed, target, opened, { outcome: 'nothing' });
    if (mode === 'branch') {
      const branch = taking.options.branch || branchOf(taking.runId, left);
      const { isNew } = await makeBranch(host, opened, target, branch).catch((error: unknown) => {
        throw explainName(error, branch, taking);
      });
      return await say(summed, target, opened, { outcome: isNew ? 'branch' : 'already', branch });
    }
    if (target.folder === null)
      throw usageError(
        `${sanitizeLine(target.top)} is bare and has no files`,
        `Make a branch: ${typedAgain(taking, '--branch')}`,
      );
    return await applyTo(summed, target, target.folder, opened);
  });
}

function explainName(error: unknown, branch: string, taking: Taking): unknown {
  if (error instanceof RefusedBranchName)
    return usageError(
      `--branch: git takes no branch with the name ${quote(branch)}`,
      'The rules for names: git help check-ref-format',
    );
  if (!(error instanceof BlockedBranch)) return error;
  // Without a slash, a name is blocked by longer ones.
  const free = branch.includes('/') ? branch.replaceAll('/', '-') : `${branch}-1`;
  const other = `--branch=${quoteArgument(free)}`;
  return usageError(sanitizeLine(error.message), `Choose another name: ${typedAgain(taking, other)}`);
}

/** Products of builds follow the files that people wrote, folder by folder. */
function renderFiles(files: readonly ChangedFile[], products: readonly BuildProduct[], style: Style): string {
  const paths = new Set(products.map(({ path }) => path));
  const written = files.filter((file) => !isInProduct(file, paths));
  return `${renderChangedFiles(written, style)}${renderBuildProducts(products, style)}`;
}

async function applyTo(summed: Summed, target: Target, folder: string, opened: Opened): Promise<ExitCode> {
  const { host, mode, options, context } = summed;
  const tree = placeOf(context, folder);
  const { records } = tree;
  const patch: Patch = { opened, folder, file: await writePatch(host, opened) };
  // Not ended in the middle: half of it would be worse than all.
  const { signal: _signal, ...whole } = host;
  const merge = async (): Promise<Said> => {
    const merged = await mergeChanges(host, opened, folder, branchOf(summed.runId, summed.left));
    const { conflicts } = merged;
    const outcome = conflicts.length === 0 ? (mode === 'check' ? 'applies' : 'applied') : 'conflict-markers';
    if (!merged.changesFiles) return { outcome, conflicts };
    const ofMerge: Patch = { opened: merged.opened, folder, file: await writePatch(host, merged.opened) };
    const inTheWay = await conflictsOf(host, ofMerge);
    if (inTheWay.length > 0) return { outcome: 'conflicts', conflicts: inTheWay };
    const before = mode === 'check' ? null : await applyToFolder(whole, ofMerge, records, conflicts.length > 0);
    return { outcome, conflicts, before };
  };
  const attempt = async (): Promise<Said> => {
    const conflicts = await conflictsOf(host, patch);
    if (conflicts.length > 0) {
      if (await isApplied(host, patch)) return { outcome: 'already' };
      return options['3way'] === true ? await merge() : { outcome: 'conflicts', conflicts };
    }
    if (mode === 'check') return { outcome: 'applies' };
    await applyToFolder(whole, patch, records);
    return { outcome: 'applied' };
  };
  const said = mode === 'check' ? await check(records, context, attempt) : await alone(tree, context, attempt);
  return await say(summed, target, opened, said);
}

interface Place {
  readonly folder: string;
  readonly records: string;
  readonly lock: string;
}

/** Returns a place outside of the repository, whose author could leave records or a link in it. All state folders of the user share the lock. */
function placeOf({ env }: CliContext, folder: string): Place {
  const name = createHash('sha256').update(folder).digest('hex').slice(0, 32);
  return { folder, records: join(env.stateDir, 'applies', name), lock: join(env.cacheDir, 'applies', `${name}.lock`) };
}

async function check<T>(records: string, { stderr }: CliContext, attempt: () => Promise<T>): Promise<T> {
  if (await hasUnfinished(records))
    await stderr.write(
      'another `voidbox apply` is at work here, or was killed: then the next one, without --check, first puts back what that one has written\n',
    );
  return await attempt();
}

/** Of two at once, the second sees all that the first has done; of one that was killed, nothing is left before. */
async function alone<T>(tree: Place, { stderr }: CliContext, attempt: () => Promise<T>): Promise<T> {
  const waiting = (): void => void stderr.write('waiting for another `voidbox apply`\n');
  return await withLock(
    tree.lock,
    async () => {
      const nothing = (): Promise<void> => Promise.resolve();
      for (const each of await recoverUnfinished(tree, (lock) => withLock(lock, nothing, waiting)))
        await stderr.write(recoveredText(tree.folder, each));
      return await attempt();
    },
    waiting,
  );
}

function recoveredText(folder: string, { isWhole, kept, putBack, changed }: Recovery): string {
  const where = sanitizeLine(folder);
  const files = kept === null ? '' : `; files that were there before are in ${sanitizeLine(kept)}`;
  if (isWhole) return `an earlier \`voidbox apply\` to ${where} was killed, and had written everything${files}\n`;
  const lines = changed.map(({ name, before }) => {
    const path = sanitizeLine(name.toString());
    return before === null
      ? `  ${path} stays: it was not there before, and is not what that one wrote\n`
      : `  ${path} stays: it has changed since, or is written in part; as it was before, it is at ${sanitizeLine(before.toString())}\n`;
  });
  return `an earlier \`voidbox apply\` to ${where} was killed while it wrote: ${countOf(putBack, 'file')} put back\n${lines.join('')}`;
}

interface Said {
  readonly outcome: 'nothing' | 'branch' | 'already' | 'applies' | 'applied' | 'conflicts' | 'conflict-markers';
  readonly branch?: string;
  readonly conflicts?: readonly Conflict[];
  /** The folder with the changed files as they were before a merge with conflicts; null: nothing was written. */
  readonly before?: string | null;
}

async function say(
  summed: Summed,
  target: Target,
  { base, commit, files }: Opened,
  { outcome, branch, conflicts = [], before = null }: Said,
): Promise<ExitCode> {
  const { runId, left, options, context, products } = summed;
  const code = outcome === 'conflicts' || outcome === 'conflict-markers' ? EXIT.runFailed : EXIT.success;
  if (options.json === true) {
    const repository = target.top;
    const told = {
      runId,
      stage: left.stage,
      partial: left.isPartial,
      repository,
      outcome,
      branch: branch ?? null,
      base: base.commit,
      commit,
    };
    await context.stdout.write(`${JSON.stringify({ ...told, files, products, conflicts, before })}\n`);
    return code;
  }
  const where = sanitizeLine(target.top);
  const words: Readonly<Record<Said['outcome'], string>> = {
    nothing: 'nothing has changed',
    branch: `branch ${branch ?? ''} in ${where}: git log ${base.commit.slice(0, 12)}..${branch ?? ''}`,
    already: branch === undefined ? `${where} has it already` : `branch ${branch} already exists`,
    applies: `it applies to ${where}`,
    applied: `applied to ${where}; nothing is staged or committed`,
    conflicts: '',
    'conflict-markers': '',
  };
  if (code === EXIT.success) {
    await context.stderr.write(`${words[outcome]}\n`);
    return code;
  }
  const lines = conflicts.map(
    ({ path, problem }) => `  ${path === null ? '' : `${shownName(path)}: `}${sanitizeLine(problem)}`,
  );
  if (outcome === 'conflict-markers') throw conflictMarkers(target.top, lines, before);
  throw new AppError(
    'failed',
    'cli/apply-conflicts',
    `it does not apply to ${where}, and nothing was changed:\n${lines.join('\n')}`,
    context.advise(
      options['3way'] === true
        ? `Take the commits as a branch and merge it: ${typedAgain(summed, '--branch')}`
        : `Merge, with conflict markers: ${typedAgain(summed, '--3way')}. Or take the commits as a branch: ${typedAgain(summed, '--branch')}`,
    ),
  );
}

/** The same changes for the same repository, in another way. */
function typedAgain({ runId, left, options, context }: Taking, way: string): string {
  const given = [
    way,
    ...(options.partial === true ? ['--partial'] : []),
    ...(options.stage === undefined ? [] : ['--stage', typedStage(left.stage)]),
    ...(options.repository === undefined
      ? []
      : ['--repository', quoteArgument(resolve(context.cwd, options.repository))]),
  ];
  return `voidbox apply ${given.join(' ')} ${quoteRunId(runId)}`;
}

/** Quotes a name whose characters could be mistaken for the words after it. */
function shownName(path: string): string {
  return sanitizeLine(/[:"\p{C}]/u.test(path) ? JSON.stringify(path) : path);
}

/** @param before  null: nothing was written */
function conflictMarkers(folder: string, lines: readonly string[], before: string | null): AppError {
  const [files, list, where] = [countOf(lines.length, 'file'), lines.join('\n'), sanitizeLine(folder)];
  if (before === null)
    return new AppError(
      'failed',
      'cli/apply-conflicts',
      `a merge with ${where} has conflicts in ${files}, and nothing was changed:\n${list}`,
    );
  return new AppError(
    'failed',
    'cli/apply-conflicts',
    `merged into ${where}, with conflicts in ${files}; nothing is staged or committed:\n${list}`,
    `Edit the files between <<<<<<< and >>>>>>>. Files that were there before are in ${sanitizeLine(before)}; to put them back: cp -a ${quoteArgument(`${before}/.`)} ${quoteArgument(`${folder}/`)}`,
  );
}

/** Where the workspace came from, while it is there. */
async function targetOf({ left, host, options, context }: Taking): Promise<Target> {
  if (options.repository !== undefined)
    return await findTarget(host, folderAt(resolve(context.cwd, options.repository)));
  const origin = left.folder !== null && existsSync(left.folder) ? left.folder : context.cwd;
  return await findTarget(host, origin);
}

function folderAt(path: string): string {
  if (existsSync(path)) return path;
  throw usageError(`--repository: \`${sanitizeLine(path)}\` does not exist`);
}

function asAppError(error: unknown, runId: string): unknown {
  if (error instanceof UnreadableRecord) return usageError(sanitizeLine(error.message));
  if (error instanceof WorkspaceProblem || error instanceof RefusedPlace)
    return usageError(sanitizeLine(error.message));
  if (error instanceof ApplyProblem)
    return usageError(sanitizeLine(error.message), error.remedy === null ? null : nameRunIn(error.remedy, runId));
  if (error instanceof RefusedChanges) return new AppError('failed', 'workspace/refused', sanitizeLine(error.message));
  if (error instanceof GitError && error.reason === 'missing')
    return environmentError('host/not-ready', 'there is no program `git` on the PATH', 'Install git.');
  if (error instanceof GitError && error.reason === 'disk-full')
    return environmentError('host/disk-full', sanitizeLine(error.message), 'Free space, and try again.');
  // Too large, or too slow: what git says of it names what.
  if (error instanceof GitError) return usageError(sanitizeLine(error.message));
  return error;
}
