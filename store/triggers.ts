/** The ports of deployments, deliveries and secrets; `ports/` has the port of notifications. They are rows of the database that also has the tokens. */
import type { Decider } from '../domain/delivery/decision.ts';
import type { DeliveryKeys, DeliveryState } from '../domain/delivery/delivery.ts';
import type { NewDelivery } from './ports/new-delivery.ts';
import type { SourceStore } from './ports/sources.ts';
import type { DeliveryResult, DeliveryRow } from '../domain/delivery/delivery-row.ts';
import type { Link } from '../domain/delivery/links.ts';
import type { Follower } from '../domain/delivery/run-end.ts';
import type { RunEnd, Trigger } from '../domain/delivery/trigger.ts';
import type { Notify } from '../domain/notification/notify.ts';
import type { NotificationStore } from './ports/notifications.ts';

export type { NewDelivery, Refusal } from './ports/new-delivery.ts';
export type { DeliveryResult, DeliveryRow } from '../domain/delivery/delivery-row.ts';

export interface DeploymentRow {
  readonly name: string;
  /** The version whose triggers are enabled; from 1. */
  readonly version: number;
  readonly isPaused: boolean;
  /** The fate of deliveries while it is paused. */
  readonly onPause: 'hold' | 'drop';
  readonly createdAtMs: number;
  readonly changedAtMs: number;
}

/** Everything that a version's runs are compiled from. It never changes. */
export interface VersionRow {
  readonly deployment: string;
  readonly version: number;
  readonly createdAtMs: number;
  /** The name of the token that deployed it; null: the owner of the state folder. */
  readonly deployer: string | null;
  /** The text of the spec. */
  readonly spec: string;
  /** The name of the spec's file, for diagnostics. */
  readonly specName: string;
  /** Parameters that the deployer set; a trigger's `params` override them. */
  readonly params: Readonly<Record<string, string>>;
  /** Names of the parameters that the spec has, in its order. */
  readonly paramNames: readonly string[];
  /** The name of the folder with its unpacked files, below that of all versions. */
  readonly folder: string;
  /** The SHA-256 of the tar with its files; null: the spec names no file. */
  readonly files: string | null;
  /** The folder of the spec in `folder`, where relative paths start; empty: `folder` itself. */
  readonly specDir: string;
  /** Hashes of bundles by the paths of repositories, as the spec names them from `specDir`. */
  readonly bundles: Readonly<Record<string, string>>;
  /** The stages of its plan, in order, with hashes of what they do. */
  readonly stages: readonly DeployedStage[];
  readonly triggers: readonly Trigger[];
  readonly notify: Notify;
  /** Names of the secrets that its plan, its triggers and its receivers name, sorted. */
  readonly secrets: readonly string[];
  /** Folders of the host that its runs may mount `ro`, absolute; only the owner can allow one. */
  readonly allowMounts: readonly string[];
  /** Repositories of the network, as HOST/PATH, that its runs may fetch. */
  readonly allowGit: readonly string[];
  /** Whether the mock agent plays the agents of its runs. */
  readonly mockAgents: boolean;
  /** SHA-256 of everything above but times and deployer; equal hashes are equal versions. */
  readonly hash: string;
}

export interface DeployedStage {
  readonly id: string;
  /** SHA-256 of the stage and of its VM in the plan. */
  readonly hash: string;
}

export type NewVersion = Omit<VersionRow, 'version'>;

export interface DeploymentStore {
  /**
   * Adds a version and makes it the enabled one, in one step. A deployment that was paused stays paused. A deployment
   * that was deleted continues its numbers. If the enabled version has the same hash, no version is added.
   * @throws CodedError `deploy/circle`; nothing changes
   */
  deploy(version: NewVersion, options: { readonly isPaused: boolean }): Promise<DeployedVersion>;
  /** Null: there is no such deployment, or it was deleted. */
  find(name: string): Promise<DeploymentRow | null>;
  /** By name. @param after  only names that follow this one */
  list(limit: number, after?: string): Promise<readonly DeploymentRow[]>;
  /** Returns a text that is another one if a row of `list` has changed, or another version is enabled. */
  readMark(): Promise<string>;
  /** Null: there is no such version. Also of a deployment that was deleted, because runs name it. */
  findVersion(name: string, version: number): Promise<VersionRow | null>;
  /**
   * Those that exist, in one look. Each has its whole spec, so a caller names few at once.
   * @param versions  each once
   */
  findVersions(versions: readonly VersionId[]): Promise<readonly VersionRow[]>;
  /** The latest first. @param before  only lower numbers */
  listVersions(name: string, limit: number, before?: number): Promise<readonly VersionRow[]>;
  /** @returns null if there is no such deployment */
  pause(name: string, onPause: 'hold' | 'drop', nowMs: number): Promise<DeploymentRow | null>;
  resume(name: string, nowMs: number): Promise<DeploymentRow | null>;
  /**
   * Enables an earlier version.
   * @returns null if there is no such deployment or version
   * @throws CodedError `deploy/circle`; nothing changes
   */
  enable(name: string, version: number, nowMs: number): Promise<DeploymentRow | null>;
  /** Its versions and deliveries stay. @returns false if there is no such deployment */
  delete(name: string, nowMs: number): Promise<boolean>;
  /** Whether a deployment that is neither paused nor deleted exists. */
  hasEnabled(): Promise<boolean>;
  /** Whether a version has this folder. */
  hasFolder(folder: string): Promise<boolean>;
  /** Returns those of the names whose runs a trigger of an enabled version follows, also of a paused deployment. */
  listFollowed(names: readonly string[]): Promise<readonly string[]>;
  /** Returns what each enabled version follows. */
  listLinks(): Promise<readonly Link[]>;
}

export type VersionId = Pick<VersionRow, 'deployment' | 'version'>;

export interface DeployedVersion {
  readonly deployment: DeploymentRow;
  readonly version: VersionRow;
  /** False: the enabled version was the same. */
  readonly isNew: boolean;
}

export interface DeliveryQuery {
  /** At least 1. */
  readonly limit: number;
  /** Only deliveries that were accepted before the one with this number. */
  readonly before?: number;
  readonly deployment?: string;
  readonly trigger?: string;
  readonly state?: DeliveryState;
  /** Only deliveries that were accepted at this time or later. */
  readonly sinceMs?: number;
}

/** A delivery that a process works on until its lease ends. A delivery that another process has claimed since is lost. */
export interface Claim {
  readonly id: string;
  /** Unique for each process and each call of `claim`. */
  readonly token: string;
}

export interface ClaimRequest {
  readonly token: string;
  readonly nowMs: number;
  readonly leaseMs: number;
  readonly limit: number;
}

export interface DecideRequest extends Claim {
  readonly nowMs: number;
  /** The lease begins again. */
  readonly leaseMs: number;
  readonly trigger: Trigger;
  /** The keys of the delivery. */
  readonly keys: DeliveryKeys;
  /** Pure: a lost connection may call it again. */
  readonly decide: Decider;
}

export interface RecordedEnd {
  /** The delivery that started the run. */
  readonly id: string;
  /** The end as an event for triggers that follow the deployment. Null: no trigger followed it at the end of the run. */
  readonly event: RunEndEvent | null;
  readonly nowMs: number;
  /** Makes the id of a new delivery. */
  readonly createId: () => string;
}

export interface RunEndEvent {
  readonly state: RunEnd;
  /** JSON: the payload of each new delivery. */
  readonly body: Uint8Array;
}

export interface DeliveryMember {
  readonly delivery: DeliveryRow;
  /** Null: it was deleted. */
  readonly body: Uint8Array | null;
}

export interface DeliveryStore {
  /** Commits a delivery and its body. A delivery with the same id is not added again, and is returned as it is. */
  accept(delivery: NewDelivery): Promise<{ readonly delivery: DeliveryRow; readonly isNew: boolean }>;
  /** Commits all of the deliveries or none, in their order. Their ids are new. */
  acceptAll(deliveries: readonly NewDelivery[]): Promise<void>;
  find(id: string): Promise<DeliveryRow | null>;
  /** Null: there is no such delivery, or its body is deleted. */
  readBody(id: string): Promise<Uint8Array | null>;
  /** Returns the body of each delivery that exists, by id. Null: it is deleted. */
  readBodies(ids: readonly string[]): Promise<ReadonlyMap<string, Uint8Array | null>>;
  /** The latest first, by `seq`. */
  list(query: DeliveryQuery): Promise<readonly DeliveryRow[]>;
  /** The latest delivery of each trigger that has one, in one look. */
  listLatest(triggers: readonly ScheduleId[]): Promise<readonly DeliveryRow[]>;
  /** Claims open deliveries that are due and that no process has claimed, in the order of acceptance. */
  claim(request: ClaimRequest): Promise<readonly DeliveryRow[]>;
  /**
   * Reads the facts, calls `decide` and writes its decision, all in one transaction. Decisions for one deployment
   * follow each other, and those of one process in the order of its calls. A delivery whose decision is to start keeps its claim; any other loses it.
   * @returns the delivery after the decision; null: the claim is lost, or the delivery has its outcome
   */
  decide(request: DecideRequest): Promise<DeliveryRow | null>;
  /**
   * Records the result and ends the claim. After a failed try the delivery waits for the next one, or is `failed`.
   * @returns null: the claim is lost, or the delivery has its outcome
   */
  record(claim: Claim, result: DeliveryResult, nowMs: number): Promise<DeliveryRow | null>;
  /** Begins the lease again, for work that takes longer. A claim that is lost changes nothing. */
  renew(claim: Claim, lease: { readonly nowMs: number; readonly leaseMs: number }): Promise<void>;
  /** Ends a claim without a change, so that any process can claim the delivery at once. */
  release(claim: Claim): Promise<void>;
  /**
   * The delivery itself and those that were merged into it, in the order of acceptance. Only for a batch: other groups
   * have no limit of size.
   */
  listMembers(id: string): Promise<readonly DeliveryMember[]>;
  /** Deliveries whose run has started and has no recorded end, by `seq`. @param after  only higher numbers */
  listOpenRuns(limit: number, after?: number): Promise<readonly DeliveryRow[]>;
  /** The run of a trigger that has started first and has no recorded end. Null: none is open. */
  findOldestRun(trigger: ScheduleId): Promise<string | null>;
  /**
   * Records that the run of a delivery has ended. A delivery that waits for room becomes due. In the same transaction,
   * each trigger of an enabled version that follows the deployment gets a delivery, if the run ended in one of its
   * states. A second call changes nothing.
   * @returns the number of new deliveries
   */
  recordRunEnd(end: RecordedEnd): Promise<number>;
  /** Returns the enabled versions that follow the runs of a deployment now, also of paused deployments. */
  listFollowers(deployment: string): Promise<readonly Follower[]>;
  /**
   * Deletes bodies of deliveries that have their outcome and were accepted `PAYLOAD_KEPT_MS` ago, and rows after
   * `DELIVERY_KEPT_MS`.
   * @returns the number of deleted bodies
   */
  sweep(nowMs: number): Promise<number>;
  /** Makes the deliveries due that the pause of a deployment holds. */
  releasePaused(deployment: string, nowMs: number): Promise<void>;
  /** Whether a delivery is open that no pause holds. */
  hasOpen(): Promise<boolean>;
  /** The number of open deliveries of a trigger, also held ones. It does not count further than `most`. */
  countOpen(deployment: string, trigger: string, most: number): Promise<number>;
  /** The time at which the next delivery is due that no process has claimed; null: none is open. */
  findNextDue(nowMs: number): Promise<number | null>;
  /** Tells all processes that a delivery may be due. A call may be lost, and several calls may be one. */
  wake(): void;
  /** @returns ends the calls of `onWake` */
  listen(onWake: () => void): Promise<() => Promise<void>>;
}

/** A secret has one value for a deployment, and may have another one for all deployments. */
export interface SecretId {
  /** The name of a variable. */
  readonly name: string;
  /** The deployment that may use it. Null: all. */
  readonly deployment: string | null;
}

export interface SecretRow extends SecretId {
  /** The id of the key that encrypts its value. */
  readonly keyId: string;
  readonly createdAtMs: number;
  readonly changedAtMs: number;
  /** Webhooks accept the value before the last rotation until this time. Null: no rotation keeps one. */
  readonly previousUntilMs: number | null;
}

/** A value as it is stored. */
export interface SealedValue {
  /** The id of the key that encrypts it. */
  readonly keyId: string;
  /** Its nonce, its encrypted bytes and their tag. */
  readonly bytes: Uint8Array;
}

export interface SealedSecret extends SecretRow {
  readonly value: SealedValue;
  /** The value before the last rotation. Null: no rotation keeps one. */
  readonly previous: SealedValue | null;
}

export interface NewSecret extends SecretId {
  readonly value: SealedValue;
}

/** The most bytes of a value, as UTF-8. */
export const MOST_SECRET_BYTES = 64 * 1024;
/** The bytes that a sealed value has beside its encrypted ones. */
export const SEAL_BYTES = 28;
/** The most secrets, each for one deployment or for all. */
export const MOST_SECRETS = 1_000;

export interface SecretChange {
  readonly nowMs: number;
  /** The keys that the caller has. If a stored value has another key, nothing changes. */
  readonly keyIds: readonly string[];
}

export type ChangedSecrets =
  | { readonly kind: 'changed'; readonly rows: readonly SecretRow[] }
  /** The keys of stored values that the caller does not have. */
  | { readonly kind: 'foreign-keys'; readonly keyIds: readonly string[] }
  /** There would be more than `MOST_SECRETS`. */
  | { readonly kind: 'full' }
  /** These secrets do not exist. */
  | { readonly kind: 'absent'; readonly ids: readonly SecretId[] };

/** Values are encrypted before they get here: no store has a key. */
export interface SecretStore {
  /** Adds or replaces all of them, or none. The value before is not kept. */
  put(secrets: readonly NewSecret[], change: SecretChange): Promise<ChangedSecrets>;
  /** Replaces the values of all of them, or of none, and keeps the values before. */
  rotate(
    secrets: readonly NewSecret[],
    change: SecretChange & { readonly previousUntilMs: number },
  ): Promise<ChangedSecrets>;
  /** By name; the one for all deployments is before the others of its name. */
  list(): Promise<readonly SecretRow[]>;
  /** Returns those with one of the names that are for this deployment or for all, in the order of `list`. */
  select(names: readonly string[], deployment: string): Promise<readonly SealedSecret[]>;
  /** Deletes all of them, or none. */
  delete(ids: readonly SecretId[]): Promise<ChangedSecrets>;
  /** Returns some secrets with a value that has another key. */
  listOfOtherKeys(keyId: string, limit: number): Promise<readonly SealedSecret[]>;
  /**
   * Replaces the sealed values of a secret by those of another key. Its times stay.
   * @returns false if the secret has changed since it was read; then nothing changes
   */
  replaceSealed(secret: SealedSecret, sealed: Pick<SealedSecret, 'value' | 'previous'>): Promise<boolean>;
  /** Deletes the values before a rotation whose time has passed. */
  dropPrevious(nowMs: number): Promise<void>;
}

export interface ScheduleId {
  readonly deployment: string;
  /** The name of its trigger. */
  readonly trigger: string;
}

/** A schedule that a person has paused. */
export interface SchedulePause extends ScheduleId {
  /** Why; may be empty. */
  readonly note: string;
  readonly pausedAtMs: number;
}

/** The part of schedules that no version has. The server of Temporal has a copy of it, which the service repairs. */
export interface ScheduleStore {
  /** 16 hexadecimal digits, the same in every process: the schedules of this database on a shared server. */
  findOwner(): Promise<string>;
  /** By deployment and trigger. They end with their deployment, and outlive its versions. */
  listPauses(): Promise<readonly SchedulePause[]>;
  /** A second pause replaces the note. @returns false if there is no such deployment */
  pause(pause: SchedulePause): Promise<boolean>;
  /** @returns false if it is not paused */
  resume(id: ScheduleId): Promise<boolean>;
}

/** A link that answers one question once. */
export interface UsedLink {
  /** SHA-256 of the link: 32 bytes. */
  readonly hash: Uint8Array;
  readonly expiresAtMs: number;
}

/** The links to questions that were used. A link has no row before. */
export interface ApprovalLinkStore {
  /**
   * Claims a link for one answer, for the time of a lease. The same token may claim it again.
   * @returns false: it was used, or another answer has it
   */
  claim(
    link: UsedLink,
    claim: { readonly token: string; readonly nowMs: number; readonly leaseMs: number },
  ): Promise<boolean>;
  /** Records that its answer has arrived, also if its lease has ended since. It stays used. */
  use(link: UsedLink, nowMs: number): Promise<void>;
  /** Ends the claim of an answer that was refused. A claim that is lost changes nothing. */
  release(hash: Uint8Array, token: string): Promise<void>;
  /** False also while an answer has it. */
  isUsed(hash: Uint8Array): Promise<boolean>;
  /** Deletes the rows of links that have expired. */
  sweep(nowMs: number): Promise<void>;
}

export interface TriggerStore {
  readonly deployments: DeploymentStore;
  readonly schedules: ScheduleStore;
  readonly secrets: SecretStore;
  readonly deliveries: DeliveryStore;
  readonly sources: SourceStore;
  readonly approvalLinks: ApprovalLinkStore;
  readonly notifications: NotificationStore;
}
