import type { ReadClientUrl } from '../app/approval-links/approval-links.ts';
import type { OpenAccess } from '../app/access/access-opener.ts';
import type { ReadHookSecrets } from '../app/hooks/receive-hook.ts';
import type { EvaluateDelivery } from '../app/deliveries/evaluate-delivery.ts';
import type { ReadSecretValues } from '../app/deliveries/read-deliveries.ts';
import type { DeployService } from '../app/deployments/deploying.ts';
import type { QueueSources } from '../app/sources/queue/queue-sources.ts';
import type { Machine } from '../app/machine.ts';
import type { ScheduleServer } from '../client/schedules/schedule-server.ts';
import type { FoundToken } from '../store/access.ts';
import type { SessionControl } from '../app/sessions/session-control.ts';
import type { SessionMessages } from '../store/session-messages.ts';
import type { UploadStore } from '../store/uploads.ts';
import type { ApiLimits } from './limits.ts';

export interface ApiOptions {
  readonly machine: Machine;
  readonly uploads: UploadStore;
  /** Messages of sessions, for clients of Void-Box. Absent: those of the state folder. */
  readonly messages?: SessionMessages;
  /** Returns the folder whose specs a token may start by their path. Null or absent: no folder. */
  readonly readSpecRoot?: () => string | null;
  /** Returns the URL under which people open pages of the service. Absent: none is known. */
  readonly readClientUrl?: ReadClientUrl;
  /** Opens the sessions of step machines for a request. Absent: those of the stack. */
  readonly openSessions?: (machine: Machine) => Promise<SessionControl>;
  readonly version: string;
  /** Opens the tokens and the audit log at the first call. */
  readonly access: OpenAccess;
  /** How webhooks find their secrets, and whom they tell of a new delivery. Absent: they have no secret. */
  readonly hooks?: HookServices;
  /** Absent: no process compares schedules, and the server of the machine is asked. */
  readonly schedules?: ScheduleServices;
  /** The token of Void-Box's daemon, which is in no database. Absent: no such token. */
  readonly daemon?: FoundToken | null;
  /** Evaluates the expressions of triggers. Absent: a thread of this process does. */
  readonly evaluate?: EvaluateDelivery;
  /** A notification may be due. Absent: the service finds it at its next look. */
  readonly wakeNotifications?: () => void;
  /** Reads secrets of a deployment, which no answer may contain. Absent: no value can be read. */
  readonly readSecretValues?: ReadSecretValues;
  /** Makes versions of deployments. Absent: in the state folder, with a process that the service does not end. */
  readonly deploying?: DeployService;
  /** The queues that this service reads for a deployment. Absent: none. */
  readonly listQueueStates?: QueueSources['listStates'];
  /** Called when deployments have changed. Absent: nothing is called. */
  readonly onDeployed?: () => Promise<void>;
  readonly limits: ApiLimits;
  readonly log: (line: string) => void;
}

/** The schedules on the server of Temporal. */
export interface ScheduleServices {
  readonly openServer: () => Promise<ScheduleServer>;
  /** Compares them with the rows soon. */
  readonly wake: () => void;
  /** Compares them with the rows now, and waits some seconds at most. */
  readonly settle: () => Promise<void>;
}

export interface HookServices {
  readonly readSecrets: ReadHookSecrets;
  readonly wake: () => void;
}
