/** What an image may have at most: those who make one are strangers. */
export interface ImageLimits {
  /** Files, folders, links and whiteouts of all layers, those that a later layer replaces included. */
  readonly entries: number;
  /** Of all files of all layers. */
  readonly contentBytes: number;
  /** Of one layer or tar, unpacked: its contents, headers and padding. */
  readonly streamBytes: number;
  /** Of an archive or a layer as it lies on the disk. */
  readonly archiveBytes: number;
  readonly layers: number;
  /** Of each JSON document of an OCI layout. */
  readonly documentBytes: number;
  readonly variables: number;
  /** Names and values of all variables. */
  readonly variableBytes: number;
  /** Of a path from the image's root. */
  readonly pathBytes: number;
}

const GIB = 2 ** 30;

export const IMAGE_LIMITS: ImageLimits = {
  entries: 500_000,
  contentBytes: 8 * GIB,
  streamBytes: 10 * GIB,
  archiveBytes: 8 * GIB,
  layers: 128,
  documentBytes: 4 * 2 ** 20,
  variables: 128,
  variableBytes: 32 * 1024,
  pathBytes: 3_000,
};
