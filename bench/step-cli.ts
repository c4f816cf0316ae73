/**
 * Advances by a skill's command line: each is a process. Sessions and histories of the wanted depth are put in place first, by
 * the same code in this process, for ten thousand processes would take half an hour.
 */
import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { runSkillCommand } from '../skill-kit/cli/commands.ts';
import { measureProcess } from './cli.ts';
import { LOOP_STEP, loopAnswer, loopSkill } from './loop-skill.ts';
import type { Arm } from './measure.ts';
import { type AdvanceMeasure, count, sessionAt } from './steps.ts';

/** Advances in a round. */
const SAMPLE = 3;

/** Measures a client that appends the lines it receives, or, for comparison, one that drops checkpoints. */
export async function statelessArm(
  steps: number,
  script: string,
  workDir: string,
  hasCheckpoints = true,
): Promise<Arm<AdvanceMeasure>> {
  const { records } = await sessionAt(steps, {});
  const history = join(workDir, `history-${steps}-${hasCheckpoints}.jsonl`);
  writeFileSync(
    history,
    records.map(({ step, response, result }) => `${JSON.stringify({ step, response, result })}\n`).join(''),
  );
  const argv = [
    'advance',
    '--step',
    LOOP_STEP,
    '--output',
    JSON.stringify(loopAnswer(steps)),
    '--history-file',
    history,
  ];
  if (hasCheckpoints) {
    const { completed } = JSON.parse(await runHere(argv, script)) as { readonly completed: unknown };
    appendFileSync(history, `${JSON.stringify(completed)}\n`);
  }
  const what = hasCheckpoints ? '' : ', checkpoints dropped';
  return {
    name: `stateless, after ${count(steps)} steps${what}`,
    round: () => sample(() => measureProcess([process.execPath, script, ...argv])),
  };
}

export async function sessionFileArm(steps: number, script: string, workDir: string): Promise<Arm<AdvanceMeasure>> {
  const dir = ['--session-dir', join(workDir, 'sessions')];
  const started = await runHere(['start', '--session', 'new', '--output-mode', 'flag', ...dir], script);
  const { sessionId } = JSON.parse(started) as { readonly sessionId: string };
  const advance = (index: number): string[] => [
    'advance',
    '--session',
    sessionId,
    ...dir,
    '--step',
    LOOP_STEP,
    '--output',
    JSON.stringify(loopAnswer(index)),
  ];
  for (let index = 0; index < steps; index++) await runHere(advance(index), script);
  let next = steps;
  return {
    name: `session file, after ${count(steps)} steps`,
    round: () => sample(() => measureProcess([process.execPath, script, ...advance(next++)])),
  };
}

/** A call of the skill's command line in this process, as the script would do it. @returns what it prints */
async function runHere(argv: readonly string[], script: string): Promise<string> {
  let [stdout, stderr] = ['', ''];
  const io = {
    argv,
    stdout: (text: string) => void (stdout += text),
    stderr: (text: string) => void (stderr += text),
    readStdin: () => Promise.resolve(''),
    script,
  };
  if ((await runSkillCommand(loopSkill(), io)) !== 0) throw new Error(`${argv.join(' ').slice(0, 200)}: ${stderr}`);
  return stdout;
}

/** The first call of a skill as an agent makes it. */
export function startArm(name: string, script: string): Arm<AdvanceMeasure> {
  return { name, round: () => sample(() => measureProcess([script, 'start'])) };
}

/** Measures the cost of an empty Node process, for comparison. */
export function nodeArm(): Arm<AdvanceMeasure> {
  return {
    name: '`node -e 0`, for comparison',
    round: () => sample(() => measureProcess([process.execPath, '-e', '0'])),
  };
}

/**
 * Measures the same process with certificates to read. Node's own root certificates have the usual size of a system's
 * bundle.
 */
export function nodeWithCertificatesArm(workDir: string): Arm<AdvanceMeasure> {
  const file = join(workDir, 'certificates.pem');
  writeFileSync(file, rootCertificates.join('\n'));
  const name = `\`node -e 0\` with \`NODE_EXTRA_CA_CERTS\`, ${rootCertificates.length} certificates`;
  return {
    name,
    round: () => sample(() => measureProcess(['env', `NODE_EXTRA_CA_CERTS=${file}`, process.execPath, '-e', '0'])),
  };
}

async function sample(once: () => Promise<Record<AdvanceMeasure, number>>): Promise<Record<AdvanceMeasure, number>> {
  const sum = { wallMs: 0, cpuMs: 0 };
  for (let i = 0; i < SAMPLE; i++) {
    const { wallMs, cpuMs } = await once();
    sum.wallMs += wallMs / SAMPLE;
    sum.cpuMs += cpuMs / SAMPLE;
  }
  return sum;
}
