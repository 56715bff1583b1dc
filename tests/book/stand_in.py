"""A stand-in for the Yelp archive: the installed film reviews, laid out like the official file."""

import csv
import io
import tarfile

import tokensel as ts


def archive(folder, n_train, n_test):
    """Write ``yelp_review_polarity_csv.tgz`` into the folder: so many reviews, both classes in turn."""
    corpus = ts.datasets.imdb(min_document_frequency=1000, keep_texts=True)
    half = len(corpus) // 2  # the negative reviews stand first
    rows = [(label, corpus.texts[i + half * (label - 1)]) for i in range(half) for label in (1, 2)]
    folder.mkdir(exist_ok=True)
    path = folder / "yelp_review_polarity_csv.tgz"
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for part, some in (("train", rows[:n_train]), ("test", rows[n_train : n_train + n_test])):
            text = io.StringIO()
            csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(some)
            data = text.getvalue().encode()
            member = tarfile.TarInfo(f"yelp_review_polarity_csv/{part}.csv")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path
