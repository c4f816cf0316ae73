/** One round of a storm: two runs, blows while they run, then a check of all that they left. */
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type CliResult, type Rig, type RunningCli, until } from '../e2e/rig.ts';
import type { SmallDisk } from '../rig/vms/small-disk.ts';
import { changeInside, listSnapshots } from '../rig/vms/snapshot-folder.ts';
import { findingsOf, isExplainedFailure } from './findings.ts';
import { brokenArtifacts, fileLeftovers, folderFindings, unfinishedFolderFindings } from './leftovers.ts';
import type { Phases } from './phases.ts';
import { isDeserted, JailedProcesses, strayProcesses, targetsOf } from './processes.ts';
import type { Random } from './random.ts';
import { boxes, cancelled, lines, mounts, saved, shared, type Story } from './story.ts';
import {
  describeBlow,
  describeDamage,
  describeFullDisk,
  planStrikes,
  type Blow,
  type Damage,
  type Strike,
} from './strikes.ts';

/** From the last blow to the end of both runs: three lost VMs, one after the other, on a busy machine. */
const FINISH_LIMIT_MS = 240_000;
/** The janitor checks every 20 s. */
const LEFTOVERS_LIMIT_MS = 60_000;
const CLI_LIMIT_MS = 120_000;
const FIRST_VM_LIMIT_MS = 30_000;
const TARGET_LIMIT_MS = 5_000;
/** The exit code of a command when the stack does not answer. */
const EXIT_ENVIRONMENT = 3;
/**
 * How long after an accepted cancel it is requested again. A server that dies forgets nothing, but a blow may have come
 * before.
 */
const CANCEL_AGAIN_MS = 10_000;

/** How long a run whose command is running may be without an event until a command asks for it. */
const ASK_AFTER_MS = 10_000;

/** The rig, the disk and the clock of a round. */
export interface Stage {
  readonly rig: Rig;
  /** Below the state folder; null: no disk can be filled. */
  readonly disk: SmallDisk | null;
  /** The folder of the snapshots from which the rig's VMs start. */
  readonly snapshots: string;
  readonly phases: Phases;
}

interface Player {
  readonly runId: string;
  readonly story: Story;
  readonly specFile: string;
}

export interface RoundReport {
  readonly findings: readonly string[];
  /** Descriptions of the blows, in their order. */
  readonly blows: readonly string[];
}

export async function playRound(
  { rig, disk, snapshots, phases }: Stage,
  name: string,
  random: Random,
): Promise<RoundReport> {
  const players = storiesOf(random).map((story, index) => prepare(rig, `${name}-${index + 1}-${story.name}`, story));
  const strikes = planStrikes(random, disk !== null);
  const blows: string[] = [];
  const killed = new Set<number>();
  const jailed = new JailedProcesses(rig);
  const watch = setInterval(() => jailed.look(), 300);
  try {
    const clis = players.map(({ specFile, runId, story }) => startRun(rig, specFile, runId, story));
    const cancels = players.map(async ({ runId, story }) => {
      if (story.cancelAtMs !== null) await sleep(story.cancelAtMs);
      if (story.cancelAtMs !== null) await cancel(rig, runId);
    });
    // A failed cancel is checked below; until then no code waits for it.
    const cancelling = Promise.allSettled(cancels);
    const wakes: Promise<void>[] = [];
    await phases.of('blows', async () => {
      await Promise.all(
        strikes.map(async (strike) => {
          await momentOf(strike, rig, clis);
          if (strike.damage !== null) blows.push(damageSnapshot(snapshots, strike.damage));
          if (disk !== null && strike.diskFullMs !== null) blows.push(fillFor(disk, strike.diskFullMs, wakes));
          blows.push(...(await Promise.all(strike.blows.map((blow) => deliver(rig, clis, blow, killed, wakes)))));
        }),
      );
    });
    await phases.of('stops', async () => await Promise.all(wakes));
    const { findings, commands } = await bringToEnd(rig, players, clis, killed, cancelling, phases);
    const records = await phases.of('records', async () => await checkRecords(rig, players, commands));
    const leftovers = await phases.of('leftovers', async () => await leftoversOf(rig, jailed));
    return { findings: [...findings, ...records, ...leftovers], blows };
  } finally {
    clearInterval(watch);
  }
}

function storiesOf(random: Random): readonly Story[] {
  const all = [
    () => lines(),
    () => shared(),
    () => saved(),
    () => boxes(),
    () => mounts(),
    () => cancelled(random.between(2_000, 12_000)),
  ];
  const first = random.below(all.length);
  const second = (first + random.between(1, all.length - 1)) % all.length;
  return [all[first]!(), all[second]!()];
}

function prepare(rig: Rig, runId: string, story: Story): Player {
  const folder = join(rig.specDir, runId);
  mkdirSync(folder);
  for (const [path, text] of Object.entries(story.before)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  const specFile = join(folder, 'spec.yaml');
  writeFileSync(specFile, story.spec);
  return { runId, story, specFile };
}

function startRun(rig: Rig, specFile: string, runId: string, story: Story, ...options: readonly string[]): RunningCli {
  return rig.startWith(story.variables, 'run', specFile, '--run-id', runId, ...options);
}

/**
 * A cancel needs the run and the server, which a blow may have killed. So it is requested again, as a person would do.
 */
async function cancel(rig: Rig, runId: string): Promise<void> {
  await until(
    `${runId} to be cancelled`,
    FINISH_LIMIT_MS,
    async () => {
      if (await rig.hasEvent(runId, 'run-finished')) return true;
      const { code } = await within(rig.start('cancel', runId));
      for (const end = Date.now() + CANCEL_AGAIN_MS; code === 0 && Date.now() < end; await sleep(100))
        if (await rig.hasEvent(runId, 'run-finished')) return true;
      return false;
    },
    1_000,
  );
}

/** `unknown` if there is no such run. */
async function stateOf(rig: Rig, runId: string): Promise<string> {
  const { code, stdout } = await rig.cli('status', runId, '--json');
  return code === 0 ? (JSON.parse(stdout) as { state: string }).state : 'unknown';
}

async function momentOf({ from, atMs }: Strike, rig: Rig, clis: readonly RunningCli[]): Promise<void> {
  // Earlier strikes may prevent VMs: then this strike falls without one.
  for (const end = Date.now() + FIRST_VM_LIMIT_MS; from === 'vm' && rig.keepers().length === 0 && Date.now() < end;) {
    if (isDeserted(rig, clis)) return;
    await sleep(100);
  }
  await sleep(atMs);
}

/** A VM may be starting from the snapshot, or making one. Each damage is one that a start must notice. */
function damageSnapshot(dir: string, damage: Damage): string {
  const [key] = listSnapshots(dir);
  if (key === undefined) return `${describeDamage(damage)} (none there)`;
  const snapshot = join(dir, key);
  try {
    if (damage === 'delete') rmSync(snapshot, { recursive: true });
    else if (damage === 'flip') changeInside(snapshot, 'state', flipBit, { keepsHash: true });
    else {
      const file = join(snapshot, damage === 'cut' ? 'state' : 'snapshot.json');
      truncateSync(file, Math.floor(statSync(file).size / 2));
    }
  } catch (error) {
    // A keeper has deleted it, too.
    const isGone =
      ['ENOENT', 'ENOTEMPTY'].includes((error as NodeJS.ErrnoException).code ?? '') || !existsSync(snapshot);
    if (!isGone) throw error;
  }
  return describeDamage(damage);
}

function flipBit(bytes: Buffer): void {
  const at = bytes.length >> 1;
  bytes[at] = bytes[at]! ^ 1;
}

/** The other blows of the strike hit processes on a full disk. */
function fillFor(disk: SmallDisk, fullMs: number, wakes: Promise<void>[]): string {
  disk.fill();
  wakes.push(sleep(fullMs).then(() => disk.makeRoom()));
  return describeFullDisk(fullMs);
}

async function deliver(
  rig: Rig,
  clis: readonly RunningCli[],
  blow: Blow,
  killed: Set<number>,
  wakes: Promise<void>[],
): Promise<string> {
  const pid = await targetOf(rig, clis, blow);
  if (pid === null) return `${describeBlow(blow)} (none there)`;
  try {
    if (blow.stopMs === null) {
      killed.add(pid);
      rig.kill(pid);
    } else {
      rig.pause(pid);
      wakes.push(sleep(blow.stopMs).then(() => rig.wake(pid)));
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
  return describeBlow(blow);
}

/**
 * A process that another blow has just ended starts again soon, and so does a VM. So a blow waits a little for its
 * target.
 */
async function targetOf(rig: Rig, clis: readonly RunningCli[], { target, which }: Blow): Promise<number | null> {
  for (const end = Date.now() + TARGET_LIMIT_MS; ; await sleep(100)) {
    const pids = targetsOf(rig, clis)[target];
    if (pids.length > 0) return pids[which % pids.length]!;
    if (Date.now() > end || isDeserted(rig, clis)) return null;
  }
}

interface Ended {
  readonly findings: readonly string[];
  /** The result of each player's command; null: it was killed, or had to be typed once more. */
  readonly commands: readonly (CliResult | null)[];
}

/** Acts like a person after a storm: starts the stack, starts runs that never started, waits. */
async function bringToEnd(
  rig: Rig,
  players: readonly Player[],
  clis: readonly RunningCli[],
  killed: ReadonlySet<number>,
  cancelling: Promise<readonly PromiseSettledResult<void>[]>,
  phases: Phases,
): Promise<Ended> {
  const findings: string[] = [];
  const up = await phases.of('up', async () => await within(rig.start('up')));
  if (up.code !== 0) findings.push(`up ended with ${up.code}: ${up.stderr.trim()}`);
  const startedAnew = new Set<string>();
  await phases.of('begin', async () => {
    await Promise.all(
      players.map(async (player, index) => {
        const cli = clis[index]!;
        if (await hasBegun(rig, player.runId, cli)) return;
        startedAnew.add(player.runId);
        findings.push(...(await beginAgain(rig, player, cli)));
      }),
    );
  });
  await phases.of('finish', async () => {
    for (const { runId } of players) {
      try {
        await rig.finish(runId, FINISH_LIMIT_MS);
      } catch (error) {
        findings.push(`${String(error)}; ${(await rig.cli('status', runId)).stdout.trim()}`);
      }
    }
  });
  const commands = await phases.of('commands', async () => {
    for (const settled of await cancelling)
      if (settled.status === 'rejected') findings.push(`cancel: ${String(settled.reason)}`);
    const results = await Promise.all(clis.map(async (cli) => await within(cli)));
    return players.map(({ runId }, index) => {
      const { pid } = clis[index]!.child;
      return (pid !== undefined && killed.has(pid)) || startedAnew.has(runId) ? null : results[index]!;
    });
  });
  return { findings, commands };
}

/** False if its command line has ended without starting the run. */
async function hasBegun(rig: Rig, runId: string, cli: RunningCli): Promise<boolean> {
  let askAt = Date.now() + ASK_AFTER_MS;
  const answer = await until(`${runId} to begin, or its command to end`, CLI_LIMIT_MS, async () => {
    const hasEnded = cli.child.exitCode !== null || cli.child.signalCode !== null;
    if (await rig.hasEvent(runId, 'run-admitted')) return 'begun';
    if (!hasEnded && Date.now() < askAt) return null;
    // The server may know of a run that has no event yet.
    if ((await stateOf(rig, runId)) !== 'unknown') return 'begun';
    askAt = Date.now() + ASK_AFTER_MS;
    return hasEnded ? 'not begun' : null;
  });
  return answer === 'begun';
}

/** A command that could not reach the stack may be typed once more. Any other error of it is a finding. */
async function beginAgain(rig: Rig, { runId, specFile, story }: Player, cli: RunningCli): Promise<readonly string[]> {
  const { code, stderr } = await cli.done;
  const findings = code === null || code === EXIT_ENVIRONMENT ? [] : [`run ${runId} was not started: ${stderr.trim()}`];
  const again = await within(startRun(rig, specFile, runId, story, '--detach'));
  return again.code === 0 ? findings : [...findings, `run ${runId} could not be started again: ${again.stderr.trim()}`];
}

/** A command line that no blow has hit reports how the run ended, whatever happened to the stack. */
function cliFindings(
  runId: string,
  story: Story,
  { code, stdout, stderr }: CliResult,
  state: string,
): readonly string[] {
  const wanted = state === 'succeeded' ? 0 : 1;
  if (code !== wanted)
    return [
      `run ${runId}, which is ${state}, ended its command with ${code}: ${stderr.trim().split('\n').slice(-4).join(' | ')}`,
    ];
  return state === 'succeeded' && stdout !== story.result
    ? [`run ${runId} printed ${JSON.stringify(stdout.slice(-200))} as its result`]
    : [];
}

async function within(cli: RunningCli): Promise<CliResult> {
  const timer = setTimeout(() => cli.child.kill('SIGKILL'), CLI_LIMIT_MS);
  const result = await cli.done;
  clearTimeout(timer);
  return result;
}

async function checkRecords(
  rig: Rig,
  players: readonly Player[],
  commands: readonly (CliResult | null)[],
): Promise<readonly string[]> {
  const [listed, ofRuns] = await Promise.all([
    listedStates(rig),
    Promise.all(players.map(async (player, index) => await checkRun(rig, player, commands[index] ?? null))),
  ]);
  const findings = players.flatMap(({ runId }, index) => {
    const { state, findings: found } = ofRuns[index]!;
    const said = listed.states.get(runId);
    return [...found, ...(said === state ? [] : [`runs says ${said}, status says ${state}`])].map(
      (finding) => `${runId}: ${finding}`,
    );
  });
  return [...listed.findings, ...findings, ...brokenArtifacts(rig.stateDir)];
}

async function listedStates(
  rig: Rig,
): Promise<{ readonly states: ReadonlyMap<string, string>; readonly findings: readonly string[] }> {
  const { code, stdout, stderr } = await rig.cli('runs', '--json', '--limit', '1000');
  if (code !== 0) return { states: new Map(), findings: [`runs ended with ${code}: ${stderr.trim()}`] };
  const { runs } = JSON.parse(stdout) as {
    readonly runs: readonly { readonly runId: string; readonly state: string }[];
  };
  return { states: new Map(runs.map(({ runId, state }) => [runId, state])), findings: [] };
}

async function checkRun(
  rig: Rig,
  { runId, story, specFile }: Player,
  command: CliResult | null,
): Promise<{ readonly state: string; readonly findings: readonly string[] }> {
  const state = await stateOf(rig, runId);
  const findings = command === null ? [] : [...cliFindings(runId, story, command, state)];
  const events = await rig.events(runId).catch((error: unknown) => String(error));
  if (typeof events === 'string') return { state, findings: [...findings, events] };
  findings.push(...findingsOf(story, events));
  if (!story.states.includes(state) && !isExplainedFailure(events)) findings.push(`status says ${state}`);
  if (state === 'succeeded') {
    const result = await rig.cli('result', runId);
    if (result.code !== 0 || result.stdout !== story.result)
      findings.push(`result ended with ${result.code} and ${JSON.stringify(result.stdout.slice(-200))}`);
  }
  return { state, findings: [...findings, ...filesFindings(story, specFile, state)] };
}

function filesFindings(story: Story, specFile: string, state: string): readonly string[] {
  const folder = dirname(specFile);
  const spec = { 'spec.yaml': readFileSync(specFile, 'utf8') };
  const [before, after] = [
    { ...spec, ...story.before },
    { ...spec, ...story.after },
  ];
  if (state === 'succeeded') return folderFindings(folder, after);
  // Each stage that succeeds copies back; if a run with a single stage fails, nothing is copied back.
  return story.stages.length === 1 ? folderFindings(folder, before) : unfinishedFolderFindings(folder, before, after);
}

/** Waits, because only the janitor may find a VM whose run has ended. Anything that is left then is a finding. */
async function leftoversOf(rig: Rig, jailed: JailedProcesses): Promise<readonly string[]> {
  const look = (): readonly string[] => [
    ...rig.keepers().map(({ vmKey }) => `the VM ${vmKey} is alive`),
    ...fileLeftovers(rig.stateDir),
    ...jailed.living(),
    ...strayProcesses(rig),
  ];
  const end = Date.now() + LEFTOVERS_LIMIT_MS;
  for (;;) {
    const found = look();
    if (found.length === 0 || Date.now() > end) return found;
    await sleep(250);
  }
}
