import { prepareAutoVmm } from '../../../setup/auto-vmm.ts';
import { resolveHostPieces, resolveOptionalPieces } from '../../../setup/resolve.ts';
import { readAllowedMounts, keepAllowedMounts } from '../../../client/embedded/allowed-mounts.ts';
import { readAllowedSources } from '../../../client/embedded/allowed-sources.ts';
import { applyListenRecord } from '../../../client/embedded/api-listeners.ts';
import { findApiSocket } from '../../../client/embedded/api-socket.ts';
import { keepListenRecord, readListenRecord, removeListenRecord } from '../../../client/embedded/listen-file.ts';
import { startTokenDatabase } from '../../../client/embedded/token-database.ts';
import { ensureStack } from '../../../client/embedded/stack.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { rememberSkillPaths } from '../../../client/embedded/skill-paths.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { IMAGES_HELP, makeGivenImages } from '../../../app/start/plan-images.ts';
import { resolveFolders } from '../../../app/start/plan-mounts.ts';
import { parseExtras, WITH_HELP } from '../../start/given-extras.ts';
import {
  addListenOptions,
  type ListenChange,
  type ListenOptions,
  parseListenOptions,
} from '../../start/listen-options.ts';
import {
  addSourceOptions,
  keepSourceChange,
  parseSourceOptions,
  type SourceOptions,
} from '../../start/source-options.ts';
import {
  addNotifyOptions,
  keepNotifyOptions,
  type NotifyOptions,
  parseNotifyOptions,
} from '../../start/notify-options.ts';
import { resolveSkillFolders } from '../../skills/skill-folders.ts';
import { renderSchedules } from '../../render/runs/schedules.ts';
import { renderTriggers } from '../../render/host/triggers.ts';
import { readEnabledTriggers } from '../../../client/embedded/trigger-mark.ts';
import { describeStay, renderStack } from '../../render/host/stack.ts';

interface Options extends ListenOptions, SourceOptions, NotifyOptions {
  readonly json?: boolean;
  readonly with?: readonly string[];
  readonly images?: readonly string[];
  readonly skills?: readonly string[];
  /** False: the list becomes empty. */
  readonly allowMounts?: readonly string[] | false;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .option(
        '--skills <folder...>',
        'folders of step machines for sessions; they replace the earlier list, also for later starts',
      )
      .option(
        '--allow-mounts <folder...>',
        'host folders outside of the folder of the spec that runs may mount; they replace the earlier list, also for later starts',
      )
      .option('--no-allow-mounts', 'runs may mount only folders below the folder of their spec')
      .option('--images <path...>', IMAGES_HELP)
      .option('--with <piece...>', WITH_HELP);
    addListenOptions(command);
    addSourceOptions(command);
    addNotifyOptions(command);
  },
  async execute(_args, options, context) {
    if (context.env.temporalConfigured) {
      throw createUsageError(
        'TEMPORAL_* names your own Temporal server, so the embedded stack is not started',
        `Start a worker for that server here: voidbox worker\nOr unset ${context.env.temporalVariables.join(', ')}.`,
      );
    }
    const { allowMounts } = options;
    const extras = parseExtras(options.with);
    const listening = parseListenOptions(options, context.cwd, context.now().getTime());
    const sources = parseSourceOptions(options, context.cwd);
    const hosts = parseNotifyOptions(options);
    const folders =
      allowMounts === undefined ? null : allowMounts === false ? [] : resolveFolders(allowMounts, context.cwd);
    if (options.skills !== undefined)
      rememberSkillPaths(context.env.stateDir, resolveSkillFolders(options.skills, context.cwd), 'replace');
    if (context.env.skills.length > 0) rememberSkillPaths(context.env.stateDir, context.env.skills, 'add');
    if (folders !== null) keepAllowedMounts(context.env.stateDir, folders);
    keepNotifyOptions(context.env.stateDir, hosts);
    keepListenChange(context.env.stateDir, listening);
    keepSourceChange(context.env.stateDir, sources);
    for (const warning of listening?.warnings ?? []) await context.stderr.write(`warning: ${sanitizeLine(warning)}\n`);
    const onProgress = (line: string): void => void context.stderr.write(`==> ${line}\n`);
    // The stack starts without these pieces, but a user who starts it by hand wants a machine on which every run can
    // start.
    await resolveHostPieces(context.env, { install: true, onProgress });
    await resolveOptionalPieces(context.env, extras, { install: true, onProgress });
    await prepareAutoVmm(context.env, onProgress);
    await makeGivenImages(options.images ?? [], context, onProgress);
    const stack = await ensureStack(context.env, { onProgress });
    const listen = await applyListenRecord(context.env.stateDir);
    if (listen.listeners.length > 0 && context.env.database === null) await startTokenDatabase(context.env.stateDir);
    const allowed = readAllowedMounts(context.env.stateDir);
    const allowedSources = readAllowedSources(context.env.stateDir);
    const { findHoldingSchedules } = await import('../../../client/embedded/schedules.ts');
    const schedules = await findHoldingSchedules(stack);
    const apiSocket = findApiSocket(context.env.stateDir);
    const deployments = readEnabledTriggers(context.env.stateDir);
    if (options.json) {
      await context.stdout.write(
        `${JSON.stringify({ stack, apiSocket, apiListeners: listen.listeners, allowedMounts: allowed, allowedSources, schedules, deployments })}\n`,
      );
      return EXIT.success;
    }
    const nowMs = context.now().getTime();
    const lines = [
      ...renderStack(stack, {
        nowMs,
        stateDir: context.env.stateDir,
        allowedMounts: allowed,
        allowedSources,
        apiSocket,
        listen,
      }),
      ...renderSchedules(schedules, nowMs),
      ...renderTriggers(deployments),
      context.advise(describeStay(listen)),
    ];
    await context.stdout.write(`${lines.join('\n')}\n`);
    return EXIT.success;
  },
});

/** @throws SetupError if no option changes the record, and it cannot be used */
function keepListenChange(stateDir: string, change: ListenChange | null): void {
  if (change === null) readListenRecord(stateDir);
  else if (change.record === null) removeListenRecord(stateDir);
  else keepListenRecord(stateDir, change.record);
}
