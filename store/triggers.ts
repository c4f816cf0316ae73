/** The ports of deployments, deliveries and secrets. They are rows of the database that also has the tokens. */
import type { DeliveryFacts, DeliveryState, Hold } from '../domain/delivery/delivery.ts';
import type { Trigger } from '../domain/delivery/trigger.ts';

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
  /** The name of the folder with its unpacked files, below that of all versions. */
  readonly folder: string;
  /** Hashes of tars by the paths that the spec names, and of bundles of repositories. */
  readonly uploads: Readonly<Record<string, string>>;
  readonly bundles: Readonly<Record<string, string>>;
  readonly triggers: readonly Trigger[];
  /** Names of the secrets that its plan and its triggers name, sorted. */
  readonly secrets: readonly string[];
  /** Folders of the host that its runs may mount `ro`, absolute; only the owner can allow one. */
  readonly allowMounts: readonly string[];
  /** Repositories of the network, as HOST/PATH, that its runs may fetch. */
  readonly allowGit: readonly string[];
  /** SHA-256 of everything above but times and deployer; equal hashes are equal versions. */
  readonly hash: string;
}

export type NewVersion = Omit<VersionRow, 'version'>;

export interface DeploymentStore {
  /**
   * Adds a version and makes it the enabled one, in one step. A deployment that was paused stays paused. A deployment
   * that was deleted continues its numbers. If the enabled version has the same hash, no version is added.
   */
  deploy(version: NewVersion, options: { readonly isPaused: boolean }): Promise<DeployedVersion>;
  /** Null: there is no such deployment, or it was deleted. */
  find(name: string): Promise<DeploymentRow | null>;
  /** By name. @param after  only names that follow this one */
  list(limit: number, after?: string): Promise<readonly DeploymentRow[]>;
  /** Null: there is no such version. Also of a deployment that was deleted, because runs name it. */
  findVersion(name: string, version: number): Promise<VersionRow | null>;
  /** The latest first. @param before  only lower numbers */
  listVersions(name: string, limit: number, before?: number): Promise<readonly VersionRow[]>;
  /** @returns null if there is no such deployment */
  pause(name: string, onPause: 'hold' | 'drop', nowMs: number): Promise<DeploymentRow | null>;
  resume(name: string, nowMs: number): Promise<DeploymentRow | null>;
  /** Enables an earlier version. @returns null if there is no such deployment or version */
  enable(name: string, version: number, nowMs: number): Promise<DeploymentRow | null>;
  /** Its versions and deliveries stay. @returns false if there is no such deployment */
  delete(name: string, nowMs: number): Promise<boolean>;
  /** Whether a deployment that is neither paused nor deleted exists. */
  hasEnabled(): Promise<boolean>;
}

export interface DeployedVersion {
  readonly deployment: DeploymentRow;
  readonly version: VersionRow;
  /** False: the enabled version was the same. */
  readonly isNew: boolean;
}

export interface NewDelivery extends DeliveryFacts {
  /** The version that was enabled at acceptance; the delivery is decided and compiled by it. */
  readonly version: number;
  /** As received. */
  readonly body: Uint8Array;
}

export interface DeliveryRow extends DeliveryFacts {
  readonly version: number;
  /** SHA-256 of the body, in hex. */
  readonly bodySha256: string;
  readonly bodyBytes: number;
  readonly state: DeliveryState;
  /** Null: it does not wait. */
  readonly hold: Hold | null;
  /** The service looks at an open delivery again at this time. Null: it has its outcome. */
  readonly dueAtMs: number | null;
  /** The keys that its trigger made; null: not decided yet. */
  readonly keys: DeliveryKeys | null;
  /** The run that it starts or has started. Null: none. */
  readonly runId: string | null;
  /** The delivery that replaces it. Null: none. */
  readonly into: string | null;
  /** The code of a refusal or of the latest failure, and its text for people. Null: none. */
  readonly code: string | null;
  readonly message: string | null;
  /** Failed tries to start its run. */
  readonly tries: number;
  readonly decidedAtMs: number | null;
}

export interface DeliveryKeys {
  readonly dedupe: string;
  readonly debounce: string | null;
  readonly batch: string | null;
  readonly rate: string | null;
  readonly order: string | null;
}

export interface SecretRow {
  readonly name: string;
  /** Deployments that may use it; empty: all. Part of the identity of the secret. */
  readonly deployments: readonly string[];
  /** The id of the key that encrypts its value. */
  readonly keyId: string;
  readonly createdAtMs: number;
  readonly changedAtMs: number;
  /** Webhooks accept the value before the last rotation until this time. Null: no rotation keeps one. */
  readonly previousUntilMs: number | null;
}

export interface TriggerStore {
  readonly deployments: DeploymentStore;
}
