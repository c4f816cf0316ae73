import { spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { prepareAutoVmm } from '../../../setup/auto-vmm.ts';
import { requireOpenFiles } from '../../../setup/machine/require-open-files.ts';
import { resolveHostPieces, resolveOptionalPieces } from '../../../setup/resolve.ts';
import { workerArgs } from '../../../setup/worker-command.ts';
import { hostTaskQueue, RUN_TASK_QUEUE, SESSION_TASK_QUEUE } from '../../../workflows/messages.ts';
import { NoServerError } from '../../../client/temporal/no-server.ts';
import { openStateFolder } from '../../../client/vms/state-folder.ts';
import type { Environment } from '../../../setup/environment.ts';
import { formatWarmShape, parseWarmShapes, type WarmCount } from '../../../domain/plan/warm-shape.ts';
import { readSecretsFile } from '../../../store/secrets-file.ts';
import { readAllowedService } from '../../../domain/language/read/egress-rules.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { shorten } from '../../../domain/units/quote.ts';
import { createEnvironmentError, createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import type { CommandHelp } from '../../command-help.ts';
import type { CliContext } from '../../context.ts';
import { refuseUndecodable } from '../../../app/start/host-variables.ts';
import { EXIT, type ExitCode } from '../../exit-code.ts';
import { parsePlaces } from '../../../app/start/plan-addresses.ts';
import { IMAGES_HELP, makeGivenImages } from '../../../app/start/plan-images.ts';
import { parseExtras, WITH_HELP } from '../../start/given-extras.ts';
import { resolveSkillFolders } from '../../skills/skill-folders.ts';

const HELP: CommandHelp = {
  common: ['--allow-mounts', '--allow-git', '--secrets-file', '--skills', '--json'],
  examples: [
    ['TEMPORAL_ADDRESS=localhost:7233 voidbox worker', 'a server without TLS'],
    ['TEMPORAL_PROFILE=prod voidbox worker', 'a profile of temporal.toml'],
    ['voidbox worker --secrets-file ./secrets.env', 'lend variables to runs'],
  ],
  notes: [
    [
      'Server',
      'TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS…, or a profile of temporal.toml (TEMPORAL_PROFILE, TEMPORAL_CONFIG_FILE). Set at least one of them, and the same ones for `voidbox run`. The namespace must exist. The worker waits 60 s for a server that does not answer yet.',
    ],
    [
      'Task queues',
      `${RUN_TASK_QUEUE} (workflows, admission of runs) and ${hostTaskQueue('HOST-ID')} (stages of runs that this host admitted); with step machines also ${SESSION_TASK_QUEUE}.`,
    ],
    [
      'Secrets',
      'Runs get the variables of --secrets-file (or VOIDBOX_SECRETS_FILE) and of --allow-env, and no other variable of this worker. The file has lines NAME=value and mode 0600; the worker reads it again for each stage. Every client that may start runs can use these variables.',
    ],
    [
      'Host',
      "VOIDBOX_STATE_DIR has runs, logs and the host's id: keep it between starts. VOIDBOX_DURABILITY is process or power (default).",
    ],
    [
      'Start',
      'The first start sets up the pieces that VMs need, as `voidbox up` does. `voidbox doctor` checks the machine and the server.',
    ],
    [
      'VMs that wait',
      'With --warm, VMs of QEMU wait for stages, and a stage starts sooner. They use at most an eighth of the memory for VMs, and end first if a stage needs room. A shape is an image (base or dev), its command lines of agents, the MiB and the vCPUs: dev+claude:1024x2=1.',
    ],
    [
      'Output',
      'When the worker polls, it prints one line on standard output (with --json, one JSON object). Progress and log lines go to standard error.',
    ],
    [
      'Stop',
      'At SIGTERM or Ctrl-C, the worker stops polling and releases its stages within 15 s. VMs keep running, and the next worker of the same state folder continues their stages. Without a worker, idle VMs end after 15 minutes (VOIDBOX_ORPHAN_TIMEOUT_MS).',
    ],
  ],
  exitCodes: [
    ['0', 'stopped by SIGTERM'],
    ['130', 'stopped by Ctrl-C'],
    ['2', 'the command line has a mistake'],
    ['3', 'environment: the machine, the server or a variable; or the worker failed'],
  ],
};

interface Options {
  readonly json?: boolean;
  readonly allowMounts?: readonly string[];
  readonly allowGit?: readonly string[];
  readonly allowServices?: readonly string[];
  readonly allowKeep?: boolean;
  readonly allowExec?: boolean;
  readonly warm?: readonly string[];
  readonly secretsFile?: string;
  readonly allowEnv?: readonly string[];
  readonly images?: readonly string[];
  readonly skills?: readonly string[];
  readonly with?: readonly string[];
}

export const command = defineCommand<Options>({
  help: HELP,
  configure: (command) => {
    command
      .option('--allow-mounts <folder...>', 'host folders that runs may mount (default: none)')
      .option(
        '--allow-git <host/path...>',
        'repositories, or paths above them, that runs may fetch with the git login of this user (default: none)',
      )
      .option(
        '--allow-services <host:port...>',
        'services of this host and its network that VMs may reach (default: none)',
      )
      .option('--allow-exec', 'let `voidbox exec` run commands in the VMs of running stages')
      .option('--allow-keep', 'let runs keep the VMs of failed stages for inspection, for at most one hour')
      .option(
        '--warm <shape=count...>',
        'VMs that wait for stages, such as base:512x1=2 (default: VOIDBOX_WARM, or none)',
      )
      .option('--secrets-file <file>', 'a file with lines NAME=value and mode 0600, whose variables runs may use')
      .option('--allow-env <name...>', "variables of this worker's environment that runs may use (default: none)")
      .option(
        '--skills <folder...>',
        'folders of step machines whose sessions this worker runs, in addition to VOIDBOX_SKILLS',
      )
      .option('--images <path...>', IMAGES_HELP)
      .option('--with <piece...>', WITH_HELP);
  },
  async execute(_args, options, context) {
    const { env } = context;
    if (!env.temporalConfigured) {
      throw createEnvironmentError(
        'cli/no-server',
        'no Temporal server is set; the embedded server already has a worker',
        'Set your server: TEMPORAL_ADDRESS=HOST:7233 voidbox worker, or set TEMPORAL_PROFILE',
      );
    }
    requireOpenFiles('A worker');
    openStateFolder(env.stateDir);
    const extras = parseExtras(options.with);
    const counts = options.warm === undefined ? env.warm : parseWarm(options.warm);
    const warm = counts.flatMap(({ shape, count }) => ['--warm', `${formatWarmShape(shape)}=${count}`]);
    const services = parseServices(options.allowServices ?? []).flatMap((service) => ['--allow-services', service]);
    const note = (line: string): void => void context.stderr.write(`==> ${line}\n`);
    const lent = renderLentOptions(options, context);
    await checkServer(env, note);
    const skills = resolveSkillFolders(options.skills ?? [], context.cwd).flatMap((folder) => ['--skills', folder]);
    const pieces = await resolveHostPieces(env, {
      install: true,
      onProgress: note,
    });
    await resolveOptionalPieces(env, [...new Set([...extras, ...counts.flatMap(listPieces)])], {
      install: true,
      onProgress: note,
    });
    await prepareAutoVmm(env, note);
    await makeGivenImages(options.images ?? [], context, note);
    const mounts = (options.allowMounts ?? []).flatMap((folder) => ['--allow-mounts', folder]);
    const git = parsePlaces(options.allowGit ?? []).flatMap((place) => ['--allow-git', place]);
    const retention = options.allowKeep ? ['--allow-keep'] : [];
    const entry = options.allowExec ? ['--allow-exec'] : [];
    const form = options.json ? ['--json'] : [];
    // Start a separate process, so that the command line never loads the worker. A signal to the group reaches both.
    const child = spawn(
      process.execPath,
      [
        ...workerArgs(),
        '--pieces',
        JSON.stringify(pieces),
        ...mounts,
        ...git,
        ...services,
        ...retention,
        ...entry,
        ...warm,
        ...lent,
        ...skills,
        ...form,
      ],
      {
        stdio: 'inherit',
      },
    );
    let isInterrupted = false;
    // A terminal sends the signal to both processes; `kill` sends it only to this one.
    const listening = context.onInterrupt(() => {
      isInterrupted = true;
      child.kill('SIGINT');
    });
    let isStopped = false;
    const forward = (): void => {
      isStopped = true;
      child.kill('SIGTERM');
    };
    process.on('SIGTERM', forward);
    try {
      return await new Promise<ExitCode>((resolve, reject) => {
        child.once('error', reject);
        child.once('exit', (code, signal) =>
          resolve(
            isInterrupted && (code === 0 || signal === 'SIGINT')
              ? EXIT.interrupted
              : // A child that a signal kills has not begun its work.
                code === 0 || (isStopped && signal === 'SIGTERM')
                ? EXIT.success
                : EXIT.environment,
          ),
        );
      });
    } finally {
      process.off('SIGTERM', forward);
      listening.dispose();
    }
  },
});

/** @throws AppError */
function parseWarm(texts: readonly string[]): readonly WarmCount[] {
  const shapes = parseWarmShapes(texts);
  if (!('problem' in shapes)) return shapes;
  throw createUsageError(
    `--warm: \`${shorten(sanitizeLine(texts.join(' ')))}\`: ${shapes.problem}`,
    'Write each shape with its count: --warm base:512x1=2 dev+claude:1024x2=1',
  );
}

/** The pieces that VMs of a shape need. */
function listPieces({ shape: { image, layers } }: WarmCount): readonly ('dev' | 'claude' | 'codex')[] {
  return image === 'dev' ? [image, ...layers] : layers;
}

/** @throws AppError */
function parseServices(texts: readonly string[]): readonly string[] {
  return texts.map((text) => {
    const service = readAllowedService(text);
    if (service !== null) return service;
    throw createUsageError(
      `--allow-services: \`${shorten(sanitizeLine(text))}\` is not HOST:PORT${text.includes('*') ? ': `*` is not a pattern' : ''}`,
      'Write each service as specs name it: --allow-services 127.0.0.1:5432',
    );
  });
}

/** Puts only the names of variables on the command line, never values. @throws CodedError `host/secrets-file` */
function renderLentOptions({ secretsFile, allowEnv = [] }: Options, { env, cwd }: CliContext): readonly string[] {
  const unset = allowEnv.filter((name) => env.variables[name] === undefined);
  if (unset.length > 0)
    throw createEnvironmentError(
      'host/variable-missing',
      `\`--allow-env\` names ${unset.join(', ')}, which ${unset.length === 1 ? 'is' : 'are'} not set here`,
      `Set ${unset.length === 1 ? 'it' : 'them'}: export ${unset.map((name) => `${name}=…`).join(' ')}`,
    );
  refuseUndecodable(allowEnv, env);
  const file = secretsFile === undefined ? env.secretsFile : resolve(cwd, secretsFile);
  if (file !== null) readSecretsFile(file);
  return [...allowEnv.flatMap((name) => ['--allow-env', name]), ...(file === null ? [] : ['--secrets-file', file])];
}

/**
 * Reports settings that must change before anything is fetched. The worker itself waits for a server that is still
 * starting.
 */
async function checkServer(env: Environment, note: (line: string) => void): Promise<void> {
  const { readConfiguredAddress } = await import('../../../client/temporal/temporal-address.ts');
  const { connectOwnServer } = await import('../../../client/temporal/server-problem.ts');
  const target = readConfiguredAddress(env);
  if (target === null) return;
  try {
    await (await connectOwnServer(target, env)).close();
  } catch (error) {
    if (!(error instanceof NoServerError) || error.kind === 'refused') throw error;
    note(`${error.message}: the worker waits a minute for it`);
  }
}
