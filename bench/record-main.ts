/**
 * `npm run record [FILE]`: records how an agent fixes a test, as docs/start/first-agent.svg. It runs the real command line in a
 * terminal of util-linux' `script`, with the mock agent, and uses no service.
 */
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { readEnvironment } from '../setup/environment.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { Screen } from './recording/screen.ts';
import { type Frame, renderSvg } from './recording/svg.ts';

const COLUMNS = 100;
const ROWS = 24;
const MOST_BYTES = 300 * 1024;
/** A reader needs no more to see that something works, and no less to see a frame. */
const MOST_WAIT_MS = 900;
const LEAST_FRAME_MS = 120;
const TYPING_MS = 700;
const HOLD_MS = 5_000;

const SPEC = `kind: agent
name: fix
llm: { provider: claude }
agent:
  prompt: "\`sh ./test.sh\` fails. Find the mistake, fix it and commit."
  workspace: { git: . }
sandbox:
  env:
    MOCK_AGENT_SCRIPT: '[{"say":"I run the test first."},{"run":"sh ./test.sh"},{"sleep_ms":600},{"run":"cat add.sh"},{"sleep_ms":600},{"run":"sed -i s/-/+/ add.sh && git commit -qam \\"add instead of subtract\\""},{"result":"\`add.sh\` subtracted. It adds now."}]'
`;

const COMMANDS = ['voidbox run fix.yaml --mock-agents', 'voidbox apply latest --patch', 'voidbox apply latest'];

async function main(target: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-record-'));
  const env: NodeJS.ProcessEnv = {
    // With npm's variables, messages would name commands as npm starts them.
    ...Object.fromEntries(Object.entries(readEnvironment().variables).filter(([name]) => !name.startsWith('npm_'))),
    VOIDBOX_STATE_DIR: join(folder, 'state'),
    TERM: 'xterm-256color',
  };
  try {
    const app = makeCalculator(folder);
    const bin = join(folder, 'bin');
    mkdirSync(bin);
    writeFileSync(
      join(bin, 'voidbox'),
      `#!/bin/sh\nexec '${process.execPath}' '${join(findPackageRoot(), 'bin/voidbox.js')}' "$@"\n`,
      { mode: 0o755 },
    );
    const inFolder = { cwd: app, env: { ...env, PATH: `${bin}:${env['PATH'] ?? ''}` } };
    // The stack starts before the recording, as it does for the second run of each user.
    execFileSync(join(bin, 'voidbox'), ['up'], { ...inFolder, stdio: 'ignore' });
    const frames = await record(inFolder);
    execFileSync(join(bin, 'voidbox'), ['down'], { ...inFolder, stdio: 'ignore' });
    const svg = renderSvg(frames, COLUMNS, ROWS, HOLD_MS);
    const sizeBytes = Buffer.byteLength(svg);
    if (sizeBytes > MOST_BYTES)
      throw new Error(`the recording has ${sizeBytes} bytes; at most ${MOST_BYTES} are allowed`);
    writeFileSync(target, svg);
    process.stdout.write(`${target}: ${frames.length} frames, ${sizeBytes} bytes\n`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function makeCalculator(parent: string): string {
  const app = join(parent, 'calculator');
  mkdirSync(app);
  const runGit = (...args: readonly string[]): void =>
    void execFileSync('git', ['-c', 'user.name=me', '-c', 'user.email=me@localhost', ...args], { cwd: app });
  writeFileSync(join(app, 'add.sh'), 'echo $(($1 - $2))\n');
  writeFileSync(
    join(app, 'test.sh'),
    'test "$(sh ./add.sh 2 3)" = 5 && echo "2 + 3 is 5" || { echo "2 + 3 is not 5"; exit 1; }\n',
  );
  runGit('init', '-q');
  runGit('add', '.');
  runGit('commit', '-qm', 'a calculator');
  writeFileSync(join(app, 'fix.yaml'), SPEC);
  return app;
}

async function record(where: { readonly cwd: string; readonly env: NodeJS.ProcessEnv }): Promise<readonly Frame[]> {
  const screen = new Screen();
  const frames: Frame[] = [];
  let atMs = 0;
  const show = (): void => {
    frames.push({ atMs, lines: screen.listLines(ROWS) });
  };
  for (const command of COMMANDS) {
    screen.write(`\u001b[32m$\u001b[39m ${command}\r\n`);
    show();
    atMs += TYPING_MS;
    let beforeMs = Date.now();
    let shownMs = atMs;
    await run(command, where, (text) => {
      const nowMs = Date.now();
      atMs += Math.min(MOST_WAIT_MS, nowMs - beforeMs);
      beforeMs = nowMs;
      screen.write(text);
      if (atMs - shownMs < LEAST_FRAME_MS) return;
      shownMs = atMs;
      show();
    });
    show();
    atMs += MOST_WAIT_MS;
  }
  return frames;
}

/** `script` gives the command a terminal, so that it colours and redraws. */
async function run(
  command: string,
  where: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
  onText: (text: string) => void,
): Promise<void> {
  const inTerminal = `stty cols ${COLUMNS} rows ${ROWS}; ${command}`;
  const child = spawn('script', ['-qefc', inTerminal, '/dev/null'], { ...where, stdio: ['ignore', 'pipe', 'inherit'] });
  child.stdout.setEncoding('utf8');
  child.stdout.on('data', onText);
  const code = await new Promise<number | null>((done, fail) => {
    child.once('error', fail);
    child.once('close', done);
  });
  if (code !== 0) throw new Error(`\`${command}\` ended with exit code ${code}`);
}

await main(resolve(process.argv[2] ?? join(findPackageRoot(), 'docs/start/first-agent.svg')));
