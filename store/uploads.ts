/** The port of uploads: bytes that a client sends before it starts a run with them. */

/** The limits of uploads. docs/reference/api-http.md lists them. */
export interface UploadLimits {
  /** The largest upload. */
  readonly blobBytes: number;
  /** All uploads together. Each counts as at least `leastBytes`, so that their number has a limit too. */
  readonly totalBytes: number;
  readonly leastBytes: number;
  /** An upload that no request has used for this long is deleted. */
  readonly keptMs: number;
  /** A file of a killed process has not grown for this long. */
  readonly abandonedMs: number;
}

const GIB = 1024 ** 3;

export const UPLOAD_LIMITS: UploadLimits = {
  blobBytes: 2 * GIB,
  totalBytes: 20 * GIB,
  leastBytes: 1024 ** 2,
  keptMs: 24 * 60 * 60_000,
  abandonedMs: 5 * 60_000,
};

export interface StoredUpload {
  readonly sha256: string;
  readonly sizeBytes: number;
}

/** An upload that stays readable until `close`, also if it is deleted. */
export interface HeldUpload extends StoredUpload {
  bytes(): AsyncIterable<Uint8Array>;
  close(): Promise<void>;
}

/** The folders with the unpacked files of versions of deployments. A row of the database names each. */
export interface VersionFolders {
  /** Makes a new, empty folder. @returns its name and its absolute path @throws CodedError `host/disk-full` */
  make(): Promise<{ readonly name: string; readonly path: string }>;
  /** Returns the absolute path of a folder that `make` has named. */
  locate(name: string): string;
  drop(name: string): Promise<void>;
  /**
   * Deletes folders that no version names. A deployment that is in progress has a day.
   * @param isNamed  whether a version names the folder
   */
  sweep(isNamed: (name: string) => Promise<boolean>, nowMs: number): Promise<void>;
}

/** Every method that names an upload renews its time. */
export interface UploadStore {
  /** Null: it is not here. */
  find(sha256: string): Promise<StoredUpload | null>;
  /**
   * Stores the bytes under their hash. An error, also of `bytes`, leaves nothing.
   * @param announcedBytes  null: the sender did not announce the size
   * @throws CodedError `api/too-large`, `api/uploads-full`, `api/wrong-hash`, `host/disk-full`
   */
  put(sha256: string, bytes: AsyncIterable<Uint8Array>, announcedBytes: number | null): Promise<StoredUpload>;
  /** Null: it is not here. */
  hold(sha256: string): Promise<HeldUpload | null>;
  /** Deletes uploads that were not used for a day, and what killed processes left. */
  sweep(): Promise<void>;
  /**
   * Makes a new, empty folder for unpacked uploads of a run. It is deleted with the records of the run.
   * @returns its absolute path
   */
  makeFolder(runId: string): Promise<string>;
  /** Deletes a folder of `makeFolder`, whose run has not started. */
  dropFolder(folder: string): Promise<void>;
  /** @throws CodedError `host/disk-full` if the room of the disk is reserved for runs */
  requireRoom(): void;
}
