/** The limits of an image, because strangers make images. */
export interface ImageLimits {
  /** The limit of files, folders, links and whiteouts of all layers, with those that a later layer replaces. */
  readonly entries: number;
  /** The limit for all files of all layers. */
  readonly contentBytes: number;
  /** The limit for one unpacked layer or tar: its contents, headers and padding. */
  readonly streamBytes: number;
  /** The limit for an archive or a layer in the form in which it is stored. */
  readonly archiveBytes: number;
  readonly layers: number;
  /** The limit for each JSON document of an OCI layout. */
  readonly documentBytes: number;
  readonly variables: number;
  /** The limit for names and values of all variables. */
  readonly variableBytes: number;
  /** The limit for a path from the image's root. */
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
