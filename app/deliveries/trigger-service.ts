/** The part of a service that starts the runs of deployments: accepted deliveries are decided, and their runs start. */
import { createConditionThreads } from '../../conditions/threads.ts';
import { readNotifyHosts } from '../../client/embedded/notify-hosts.ts';
import { readAllowedSources } from '../../client/embedded/allowed-sources.ts';
import { hasEnabledTriggers } from '../../client/embedded/trigger-mark.ts';
import { stageNameOf } from '../../domain/run/attempt.ts';
import type { Environment } from '../../setup/environment.ts';
import { openHeldArtifacts } from '../../store/open-uploads.ts';
import type { TriggerStore } from '../../store/triggers.ts';
import type { OpenAccess } from '../access/access-opener.ts';
import type { ReadClientUrl } from '../approval-links/approval-links.ts';
import { linkStage } from '../approval-links/link-stage.ts';
import { createDeploying, type DeployService } from '../deployments/deploying.ts';
import { createEnabledList } from '../deployments/enabled-versions.ts';
import { markTriggers } from '../deployments/mark-triggers.ts';
import { startDelivered } from '../deployments/start-delivered.ts';
import type { ReadHookSecrets } from '../hooks/receive-hook.ts';
import type { Machine } from '../machine.ts';
import { createRunCanceller } from '../schedules/cancel-oldest.ts';
import { createServerOpener, keepSchedules, type ScheduleKeeper } from '../schedules/schedule-keeper.ts';
import { readWebhookSecrets } from '../secrets/read-secrets.ts';
import { findSecretKeyFile } from '../secrets/secret-keys.ts';
import type { OpenQueue } from '../sources/queue/queue-port.ts';
import { type QueueSources, startQueueSources } from '../sources/queue/queue-sources.ts';
import { startSources } from '../sources/start-sources.ts';
import { createEvaluateDelivery, type EvaluateDelivery } from './evaluate-delivery.ts';
import { startPump } from './pump.ts';
import type { ReadSecretValues } from './read-deliveries.ts';
import { createWakeCalls } from './wake-calls.ts';
import { startNotifications } from '../notifications/notification-service.ts';
import { watchRuns } from './watch-runs.ts';

const SWEEP_EVERY_MS = 60 * 60_000;

export interface TriggerServiceOptions {
  readonly env: Environment;
  readonly machine: Machine;
  readonly access: OpenAccess;
  /** Returns the URL of links in messages. */
  readonly readClientUrl: ReadClientUrl;
  /** Whether a database exists. Without one, no deployment exists. */
  readonly hasDatabase: () => boolean;
  readonly log: (line: string) => void;
}

export interface TriggerService {
  readonly deploying: DeployService;
  readonly evaluate: EvaluateDelivery;
  readonly readSecretValues: ReadSecretValues;
  readonly hooks: { readonly readSecrets: ReadHookSecrets; readonly wake: () => void };
  readonly schedules: Omit<ScheduleKeeper, 'close'>;
  /** A notification may be due. */
  readonly wakeNotifications: () => void;
  /** The queues that this service reads for a deployment. */
  readonly listQueueStates: QueueSources['listStates'];
  /** Deployments have changed. */
  readonly onDeployed: () => Promise<void>;
  close(): Promise<void>;
}

export function startTriggerService({
  env,
  machine,
  access,
  readClientUrl,
  hasDatabase,
  log,
}: TriggerServiceOptions): TriggerService {
  const deploying = createDeploying(env, access);
  const threads = createConditionThreads();
  const calls = createWakeCalls({ onWake: () => pump.wake(), log });
  // Requests of the owner that concern no deployment do not start the embedded database.
  let isUsed = env.database !== null;
  const openTriggers = async (): Promise<TriggerStore | null> => {
    if (!hasDatabase() || !(isUsed || hasEnabledTriggers(env.stateDir))) return null;
    const { triggers } = await access('find');
    calls.keepListening(triggers.deliveries);
    return triggers;
  };
  const listEnabled = createEnabledList();
  const mark = async (triggers: TriggerStore): Promise<void> => await markTriggers(env.stateDir, triggers, listEnabled);
  const evaluate = createEvaluateDelivery(threads);
  const pump = startPump({
    openTriggers,
    evaluate,
    start: async (ready) => await startDelivered(ready, { ...deploying.open(), onProgress: log }, machine),
    cancelRun: createRunCanceller(machine, log),
    nowMs: () => machine.now().getTime(),
    onIdle: mark,
    log,
  });
  const wake = (): void => {
    isUsed = true;
    calls.wake();
  };
  const readSecretValues: ReadSecretValues = async (deployment, names) =>
    await deploying.open().readSecrets(deployment, names);
  const notifications = startNotifications({
    openTriggers,
    machine,
    readSecretValues,
    createApprovalLink: async ({ runId, stage, execKey, as }) => {
      const asked = { runId, stage: stageNameOf({ stage, execKey }), as };
      return (await linkStage(asked, { env, machine, access, readClientUrl })).url;
    },
    openServer: createServerOpener(machine),
    listEnabled,
    readOpenedHosts: () => readNotifyHosts(env.stateDir),
    onIdle: mark,
    log,
  });
  const held = { hold: async (sha256: string) => await openHeldArtifacts(env).hold(sha256) };
  const runs = watchRuns({ openTriggers, machine, held, onEnded: calls.wake, log });
  const schedules = keepSchedules({ openTriggers, openServer: createServerOpener(machine), log });
  const queues = startQueueSources({
    openTriggers,
    open: openQueue,
    readSecrets: readSecretValues,
    readAllowed: () => readAllowedSources(env.stateDir).queue,
    listEnabled,
    wake: calls.wake,
    nowMs: () => machine.now().getTime(),
    log,
  });
  const sources = startSources({
    env,
    machine,
    openTriggers,
    readSecrets: readSecretValues,
    listEnabled,
    wake: calls.wake,
    log,
  });
  const sweep = async (): Promise<void> => {
    const triggers = await openTriggers();
    if (triggers === null) return;
    const nowMs = machine.now().getTime();
    await triggers.deliveries.sweep(nowMs);
    await triggers.approvalLinks.sweep(nowMs);
    await triggers.secrets.dropPrevious(nowMs);
    await notifications.sweep(triggers);
    await sources.sweep(triggers, nowMs);
    await deploying.open().folders.sweep((name) => triggers.deployments.hasFolder(name), nowMs);
  };
  const sweepLoudly = (): void => void sweep().catch((error: Error) => log(`deliveries: ${error.message}`));
  const timer = setInterval(sweepLoudly, SWEEP_EVERY_MS).unref();
  return {
    deploying,
    evaluate,
    readSecretValues,
    wakeNotifications: notifications.wake,
    listQueueStates: queues.listStates,
    hooks: {
      wake,
      readSecrets: async (deployment, name) => {
        const { secrets } = (await access('find')).triggers;
        const place = { secrets, keyFile: findSecretKeyFile(env), nowMs: machine.now().getTime() };
        return await readWebhookSecrets(deployment, name, place);
      },
    },
    schedules: {
      ...schedules,
      wake() {
        isUsed = true;
        schedules.wake();
      },
      async settle() {
        isUsed = true;
        await schedules.settle();
      },
    },
    async onDeployed() {
      isUsed = true;
      const triggers = await openTriggers();
      if (triggers !== null) await mark(triggers);
      calls.wake();
      queues.refresh();
      await schedules.settle();
      sources.wake();
    },
    async close() {
      clearInterval(timer);
      // Its messages are deliveries, which the pump may start.
      await queues.close();
      await Promise.all([pump.close(), runs.close(), schedules.close(), notifications.close(), sources.close()]);
      await calls.close();
      deploying.close();
      await threads.close();
    },
  };
}

/** Most services read no queue, and load no client of a broker. */
const openQueue: OpenQueue = async (target) => {
  const { openNats } = await import('../sources/queue/nats/open-nats.ts');
  return await openNats(target);
};
